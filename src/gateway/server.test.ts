import { once } from 'node:events'
import { afterEach, expect, test } from 'vitest'
import { startAnthropic } from '../../test/wire/anthropic.ts'
import { account, CERTIFICATE, gatewayScene, MemoryBroker } from './gateway.fixture.ts'
import type { EgressHandler } from './server.ts'

const cleanups: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of cleanups.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

async function scene(options: Partial<Parameters<typeof gatewayScene>[0]> = {}) {
  const server = await startAnthropic([{ kind: 'hang', text: 'once' }], CERTIFICATE)
  const gateway = await gatewayScene({
    broker: new MemoryBroker(account({ baseUrl: server.baseUrl })),
    ...options,
  })
  cleanups.push(server, gateway)
  return gateway
}

async function sendAndRead(gateway: Awaited<ReturnType<typeof scene>>, text: string): Promise<string> {
  const socket = await gateway.dial('sandbox-7')
  socket.write(text)
  const [answer] = await once(socket, 'data')
  socket.destroy()
  return String(answer)
}

const HOST = 'host: gateway.craik\r\n'
const UPGRADE = `GET /v1/responses HTTP/1.1\r\n${HOST}connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`

test('a proxy request goes to the egress handler with its caller, and to no other handler', async () => {
  const seen: string[] = []
  const egress: EgressHandler = {
    handleConnect(caller, request, socket) {
      seen.push(`CONNECT ${request.url} ${caller.sandboxId}`)
      socket.end('HTTP/1.1 200 OK\r\n\r\n')
    },
    handlePlain(caller, request, response) {
      seen.push(`${request.method} ${request.url} ${caller.sandboxId}`)
      response.end()
    },
    handleUpgrade(caller, request, socket) {
      seen.push(`upgrade ${request.url} ${caller.sandboxId}`)
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    },
    handleMalformed(caller, error, socket) {
      seen.push(`${(error as NodeJS.ErrnoException).code} ${caller.sandboxId}`)
      socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
    },
  }
  const gateway = await scene({ egress })
  expect(await sendAndRead(gateway, `CONNECT a.example:443 HTTP/1.1\r\n${HOST}\r\n`)).toMatch(
    /^HTTP\/1\.1 200/,
  )
  expect(await sendAndRead(gateway, `GET http://a.example/x HTTP/1.1\r\n${HOST}\r\n`)).toMatch(
    /^HTTP\/1\.1 200/,
  )
  const upgrade = `GET http://a.example/ws HTTP/1.1\r\n${HOST}connection: Upgrade\r\nupgrade: websocket\r\n\r\n`
  expect(await sendAndRead(gateway, upgrade)).toMatch(/^HTTP\/1\.1 403/)
  expect(await sendAndRead(gateway, 'no HTTP at all\r\n\r\n')).toMatch(/^HTTP\/1\.1 400/)
  expect(seen).toEqual([
    'CONNECT a.example:443 sandbox-7',
    'GET http://a.example/x sandbox-7',
    'upgrade http://a.example/ws sandbox-7',
    'HPE_INVALID_METHOD sandbox-7',
  ])
})

test('without an egress handler, both forms are refused', async () => {
  const gateway = await scene()
  expect(await sendAndRead(gateway, `CONNECT a.example:443 HTTP/1.1\r\n${HOST}\r\n`)).toMatch(
    /^HTTP\/1\.1 403 .*not allowed/s,
  )
  expect(await sendAndRead(gateway, `GET http://a.example/ HTTP/1.1\r\n${HOST}\r\n`)).toMatch(
    /^HTTP\/1\.1 403 .*not allowed/s,
  )
})

test('a WebSocket request to a provider without a login for it gets 426, on which Codex falls back to HTTP at once', async () => {
  expect(await sendAndRead(await scene(), UPGRADE)).toMatch(/^HTTP\/1\.1 426 Upgrade Required\r\n/)
})

test.each([
  ['GET', '/'],
  ['GET', '/v1/messages'],
  ['POST', '/v1/embeddings'],
  ['POST', '/v1/messages/'],
  ['POST', '/v1/../v1/messages'],
  ['POST', '/v1beta/models/a/b:generateContent'],
  ['POST', '/v1internal:recordCodeAssistMetrics'],
  ['POST', '/p/provider_UPPER/v1/messages'],
])('%s %s is not a route', async (method, path) => {
  const answer = await sendAndRead(
    await scene(),
    `${method} ${path} HTTP/1.1\r\n${HOST}content-length: 0\r\n\r\n`,
  )
  expect(answer).toMatch(/^HTTP\/1\.1 404 /)
})

test('an unknown provider, or one with another dialect, is named as such', async () => {
  const gateway = await scene()
  const body = { model: 'm', max_tokens: 5, messages: [] }
  const unknown = await gateway.ask('/p/provider_nobody/v1/messages', body)
  expect([unknown.status, await unknown.text()]).toEqual([
    404,
    expect.stringContaining('unknown model provider'),
  ])
  const other = await gateway.ask('/p/provider_openai/v1/messages', body)
  expect([other.status, await other.text()]).toEqual([
    400,
    expect.stringContaining('does not support this dialect'),
  ])
})

test('more concurrent requests than a caller’s limit are refused, and another caller is served', async () => {
  const gateway = await scene({ limits: { requests: 2 } })
  const body = {
    model: 'm',
    max_tokens: 5,
    stream: true,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }] }],
  }
  const headers = { 'anthropic-version': '2023-06-01' }
  const open = [
    await gateway.ask('/v1/messages', body, { headers }),
    await gateway.ask('/v1/messages', body, { headers }),
  ]
  expect(open.map(({ status }) => status)).toEqual([200, 200])
  expect((await gateway.ask('/v1/messages', body, { headers })).status).toBe(429)
  expect((await gateway.ask('/v1/messages', body, { headers, sandboxId: 'sandbox-2' })).status).toBe(200)
})

test('closing ends open calls with an error event, and settles them', async () => {
  const gateway = await scene()
  const body = {
    model: 'm',
    max_tokens: 5,
    stream: true,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }] }],
  }
  const response = await gateway.ask('/v1/messages', body, { headers: { 'anthropic-version': '2023-06-01' } })
  const text = response.text()
  await gateway.gateway.close()
  expect(await text).toContain('event: error')
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
})
