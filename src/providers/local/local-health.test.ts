/** Tests the check of a local server: one request, a response of limited size, and a status for each result. */
import { createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { checkLocalHealth, type LocalHealth } from './local-health.ts'
import { findLocalPreset } from './local-presets.ts'
import {
  jsonAnswer,
  type ModelServer,
  respondEndlessly,
  respondSlowly,
  respondWithModels,
  startModelServer,
} from './model-server.fixture.ts'

const PRESET = findLocalPreset('ollama')
const AT = Date.parse('2026-11-15T09:00:00Z')

describe('a health check', () => {
  it('requests <base>/models once, and lists the models, sorted', async () => {
    await using server = await startModelServer(respondWithModels('qwen3:8b', 'llama3.2:latest', 'qwen3:8b'))
    expect(await check(server.baseUrl)).toEqual({
      preset_id: 'ollama',
      provider_id: 'provider_local_ollama',
      base_url: server.baseUrl,
      status: 'ok',
      detail: 'serves 2 models',
      warnings: [expect.stringContaining('plaintext HTTP')],
      models: ['llama3.2:latest', 'qwen3:8b'],
      checked_at: '2026-11-15T09:00:00.000Z',
    })
    expect(server.asked).toEqual(['GET /v1/models'])
  })

  it.each([
    ['/v1', 'GET /v1/models'],
    ['/v1/', 'GET /v1/models'],
    ['', 'GET /models'],
    ['/', 'GET /models'],
    ['/openai/v1', 'GET /openai/v1/models'],
    ['/api/v2', 'GET /api/v2/models'],
  ])('for a base URL that ends in %j, requests %s', async (path, requested) => {
    await using server = await startModelServer(respondWithModels('m'))
    await check(`http://127.0.0.1:${server.port}${path}`)
    expect(server.asked).toEqual([requested])
  })

  it('refuses a base URL with /v1 twice, and suggests the right one', async () => {
    await expect(check('http://localhost:1/v1/v1')).rejects.toMatchObject({
      code: 'usage',
      hint: expect.stringContaining('http://localhost:1/v1'),
    })
  })

  it('refuses a base URL outside loopback before it dials', async () => {
    await expect(check('http://192.0.2.1/v1')).rejects.toMatchObject({ code: 'usage' })
  })

  it('reports unreachable when nothing listens', async () => {
    const gone = await startModelServer(respondWithModels('m'))
    await gone[Symbol.asyncDispose]()
    expect(await check(gone.baseUrl)).toMatchObject({
      status: 'unreachable',
      detail: 'nothing listens there',
    })
  })

  it.each([301, 302, 303, 307, 308])(
    'reports rejected for a redirect (%i) and does not follow it',
    async (code) => {
      await using other = await startModelServer(respondWithModels('stolen'))
      await using server = await startModelServer((response) => {
        response.writeHead(code, { location: `${other.baseUrl}/models` }).end()
      })
      expect(await check(server.baseUrl)).toMatchObject({
        status: 'rejected',
        detail: expect.stringContaining('redirects are not followed'),
        models: [],
      })
      expect(other.asked).toEqual([])
    },
  )

  it.each([400, 401, 403, 404, 429, 500, 503])('reports rejected for HTTP %i', async (code) => {
    await using server = await startModelServer((response) => {
      response.writeHead(code).end('{"error":"Bearer sk-not-to-be-repeated-1234567890"}')
    })
    const health = await check(server.baseUrl)
    expect(health).toMatchObject({ status: 'rejected', detail: expect.stringContaining(String(code)) })
    expect(JSON.stringify(health)).not.toContain('sk-not')
  })

  it('suggests /v1 when a base URL without it returns 404', async () => {
    await using server = await startModelServer((response) => response.writeHead(404).end())
    expect((await check(`http://127.0.0.1:${server.port}`)).detail).toContain('/v1')
    expect((await check(server.baseUrl)).detail).not.toContain('/v1')
  })

  it.each<[string, string | Buffer]>([
    ['no JSON', '<html>hello</html>'],
    ['nothing', ''],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x7b])],
    ['another object', '{"models":["m"]}'],
    ['a list', '["m"]'],
    ['null', 'null'],
    ['data that is no list', '{"data":{"id":"m"}}'],
    ['a model without a name', '{"data":[{"name":"m"}]}'],
    ['a model that is null', '{"data":[null]}'],
    ['a name that is a number', '{"data":[{"id":7}]}'],
    ['an empty name', '{"data":[{"id":""}]}'],
    ['a name of 201 characters', `{"data":[{"id":"${'m'.repeat(201)}"}]}`],
    ['a name with an escape sequence', '{"data":[{"id":"m\\u001b[2J"}]}'],
    ['a name that changes direction', '{"data":[{"id":"m\\u202e"}]}'],
  ])('reports unexpected for %s', async (_, body) => {
    await using server = await startModelServer((response) => response.end(body))
    expect(await check(server.baseUrl)).toMatchObject({ status: 'unexpected', models: [] })
  })

  it('accepts null as an empty list, because some servers send it', async () => {
    await using server = await startModelServer(jsonAnswer({ object: 'list', data: null }))
    expect(await check(server.baseUrl)).toMatchObject({ status: 'ok', models: [] })
  })

  it('lists at most 500 models, and reports that there are more', async () => {
    await using server = await startModelServer(
      respondWithModels(...Array.from({ length: 501 }, (_, i) => `m${i}`)),
    )
    const { status, models, warnings } = await check(server.baseUrl)
    expect([status, models.length]).toEqual(['ok', 500])
    expect(warnings.join()).toContain('first 500')
  })

  it('stops reading an endless body', async () => {
    await using server = await startModelServer(respondEndlessly)
    expect(await check(server.baseUrl, 20_000)).toMatchObject({
      status: 'unexpected',
      detail: expect.stringContaining('1 MiB'),
    })
  })

  it.each<[string, () => Promise<ModelServer>]>([
    ['never answers', () => startModelServer(() => {})],
    ['sends one byte after another', () => startModelServer(respondSlowly('{"data":[]}', 10))],
    [
      'sends its headers and stops',
      () => startModelServer((response) => void response.writeHead(200).write('{"data":')),
    ],
  ])('has one deadline for the whole check: a server that %s', async (_, start) => {
    await using server = await start()
    expect(await check(server.baseUrl, 150)).toMatchObject({
      status: 'unreachable',
      detail: 'no complete response within 150 ms',
    })
  })

  it('reports unexpected when the server does not speak HTTP', async () => {
    await using server = await startRaw((socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n'))
    expect(await check(server.baseUrl)).toMatchObject({ status: 'unexpected' })
  })

  it('reports unexpected when the connection breaks', async () => {
    await using server = await startModelServer((response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{"data":', () => response.socket?.destroy())
    })
    expect(await check(server.baseUrl)).toMatchObject({ status: 'unexpected' })
  })

  it('reports unreachable for https without a trusted certificate', async () => {
    const server = createTlsServer({})
    server.on('tlsClientError', () => {})
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    const { port } = server.address() as { port: number }
    expect(await check(`https://127.0.0.1:${port}/v1`)).toMatchObject({
      status: 'unreachable',
      warnings: [],
    })
    server.close()
  })

  it('stops when it is cancelled', async () => {
    await using server = await startModelServer(() => {})
    const cancel = new AbortController()
    const health = check(server.baseUrl, 30_000, cancel.signal)
    cancel.abort(new Error('enough'))
    await expect(health).rejects.toThrow('enough')
  })
})

function check(
  baseUrl: string,
  timeoutMs = 5000,
  signal = new AbortController().signal,
): Promise<LocalHealth> {
  return checkLocalHealth(PRESET, { baseUrl, timeoutMs, signal, clock: { nowMs: () => AT } })
}

async function startRaw(serve: (socket: Socket) => void) {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket.on('error', () => {}))
    serve(socket)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as { port: number }
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      await new Promise((done) => server.close(done))
    },
  }
}
