import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { getUrl, readSocket, requestThroughProxy } from './client.fixture.ts'
import { openScene, PUBLIC, type Scene, type SceneOptions } from './egress-proxy.fixture.ts'

let scene: Scene
const begin = async (options?: SceneOptions) => {
  scene = await openScene(options)
  await scene.allow('allowed.example:80')
}
afterEach(() => scene.close())

const ends = async () =>
  (await scene.store.bodies()).filter(({ kind, phase }) => kind === 'egress' && phase === 'end')

describe('a plain request', () => {
  it('is forwarded without its proxy headers, and the response is returned', async () => {
    await begin()
    const answer = await getUrl(
      scene.port,
      'http://allowed.example/a/b?c=d',
      'Proxy-Authorization: Basic secret\r\nX-Mine: 1\r\nX-Mine: 2\r\nX-Hop: 3\r\nConnection: x-hop\r\nTE: trailers\r\n',
    )
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK/)
    expect(answer).toContain('hello')
    expect(scene.seen).toEqual(['GET allowed.example /a/b?c=d'])
    const { headers } = scene.heads[0]!
    expect(headers).toMatchObject({ host: 'allowed.example', 'x-mine': '1, 2', connection: 'close' })
    for (const name of ['proxy-authorization', 'x-hop', 'te', 'via', 'x-forwarded-for'])
      expect(headers[name]).toBeUndefined()
    expect(await ends()).toMatchObject([
      {
        status: 'passed',
        operation: 'request',
        metadata: { outcome: 'closed', http_status: 200, address: PUBLIC },
      },
    ])
  })

  it('carries its body, with or without a known length, as one request', async () => {
    const got: string[] = []
    await begin({
      answer: (request, response) => {
        let text = ''
        request.on('data', (chunk) => {
          text += chunk
        })
        request.on('end', () => {
          got.push(text)
          response.end('thanks')
        })
      },
    })
    const head = (method: string, length: string) =>
      `${method} http://allowed.example/up HTTP/1.1\r\nHost: allowed.example\r\n${length}\r\n`
    await requestThroughProxy(scene.port, head('POST', 'Content-Length: 5'), 'abcde')
    // This applies to a GET too: without its length, the rest would be read as another request.
    const hidden = 'GET /hidden HTTP/1.1\r\nHost: allowed.example\r\n\r\n'
    const chunked = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`
    await requestThroughProxy(scene.port, head('GET', 'Transfer-Encoding: chunked'), chunked)
    await requestThroughProxy(scene.port, head('DELETE', `Content-Length: ${hidden.length}`), hidden)
    expect(got).toEqual(['abcde', hidden, hidden])
    expect(scene.seen.map((line) => line.split(' ').at(-1))).toEqual(['/up', '/up', '/up'])
  })

  it('is decided separately each time on one connection', async () => {
    await begin()
    const socket = connect({ host: '127.0.0.1', port: scene.port })
    const line = (host: string, end = '') => `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n${end}\r\n`
    socket.write(
      line('allowed.example') + line('forbidden.example') + line('allowed.example', 'Connection: close\r\n'),
    )
    const statuses = [...(await readSocket(socket)).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)
    expect(statuses).toEqual(['200', '403', '200'])
    expect(await ends()).toHaveLength(2)
  })

  it('is sent to its URL, and a redirect goes back to the client, which must send a new request', async () => {
    await begin({
      answer: (_, response) => response.writeHead(302, { location: 'http://forbidden.example/' }).end(),
    })
    expect(await getUrl(scene.port, 'http://allowed.example/')).toContain(
      'location: http://forbidden.example/',
    )
    expect(scene.seen).toEqual(['GET allowed.example /'])
    expect(await getUrl(scene.port, 'http://forbidden.example/')).toContain('403')
  })

  it('with a response that breaks off breaks off for the client too, and is not a success', async () => {
    await begin({
      answer: (_, response) => {
        response.writeHead(200, { 'content-length': '100' })
        response.write('half', () => response.destroy())
      },
    })
    const answer = await getUrl(scene.port, 'http://allowed.example/')
    expect(answer.endsWith('half')).toBe(true)
    await expect.poll(async () => (await ends()).length).toBe(1)
    expect((await ends())[0]).toMatchObject({ status: 'failed', metadata: { outcome: 'upstream_broke' } })
  })

  it.each([
    ['something that is not HTTP', 'SSH-2.0-x\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['another protocol', 'HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nxx'],
    ['an endless head', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`],
  ])('with %s as the response gets 502', async (_, bytes) => {
    await begin({ answer: ({ socket }) => socket.end(bytes) })
    expect(await getUrl(scene.port, 'http://allowed.example/')).toMatch(/^HTTP\/1\.1 502 /)
    expect(await ends()).toMatchObject([{ status: 'failed', metadata: { outcome: 'upstream_broke' } }])
  })

  it('is aborted when its client disconnects', async () => {
    const left = Promise.withResolvers<void>()
    await begin({
      answer: (request, response) => {
        response.writeHead(200).write('x')
        request.socket.once('close', () => left.resolve())
      },
    })
    const socket = connect({ host: '127.0.0.1', port: scene.port })
    socket.write('GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n')
    socket.once('data', () => socket.destroy())
    await left.promise
    await expect.poll(async () => (await ends()).length).toBe(1)
    expect((await ends())[0]).toMatchObject({ metadata: { outcome: 'client_gone' } })
  })

  it('with a body that never arrives is aborted', async () => {
    await begin({ egress: { limits: { idleMs: 200 } } })
    const answer = await requestThroughProxy(
      scene.port,
      'POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 10\r\n',
      'abc',
    )
    expect(answer).toMatch(/^HTTP\/1\.1 504 /)
    expect(await ends()).toMatchObject([{ metadata: { outcome: 'idle' } }])
  })

  it('in origin form, or with too many headers, is malformed', async () => {
    await begin()
    expect(await requestThroughProxy(scene.port, 'GET / HTTP/1.1\r\nHost: allowed.example\r\n')).toMatch(
      /^HTTP\/1\.1 400 /,
    )
    expect(await getUrl(scene.port, 'http://allowed.example/', 'a: b\r\n'.repeat(300))).toMatch(
      /^HTTP\/1\.1 400 /,
    )
    expect(scene.seen).toEqual([])
  })
})
