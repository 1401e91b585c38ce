/** Both ends of a boundary talk at once, and much: the host over a real socket, the sidecar as it serves it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { LIMITS, PROTOCOL_HEADER, PROTOCOL_VERSION } from './protocol.ts'
import { Router } from './routes.ts'
import { serve } from './server.ts'
import { WriteBehind } from './write-behind.ts'

let folder: string
let server: Server
let path: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'craik-behind-'))
  path = join(folder, 'sock')
  server = createServer()
  await new Promise<void>((done) => server.listen(path, done))
})
afterEach(() => {
  server.close()
  rmSync(folder, { recursive: true, force: true })
})

/** The two ends of a connection. */
async function pair(): Promise<[Socket, Socket]> {
  const accepted = new Promise<Socket>((done) => server.once('connection', done))
  const dialled = connect(path)
  await new Promise((done) => dialled.once('connect', done))
  return [await accepted, dialled]
}

it('many streams that send and receive at once all come to their end', async () => {
  const [theirs, ours] = await pair()
  const echo = new Router([
    {
      method: 'POST',
      path: '/echo',
      handle(call) {
        call.respond(200)
        call.stream.pipe(call.stream)
      },
    },
  ])
  serve(ours, echo, () => {})
  const session = await hostSession(theirs)
  const body = Buffer.alloc(256 * 1024, 'x')
  const sizes = Array.from({ length: 60 }, async () => {
    const headers = { ':method': 'POST', ':path': '/echo', [PROTOCOL_HEADER]: String(PROTOCOL_VERSION) }
    const stream = session.request(headers)
    stream.end(body)
    return (await buffer(stream)).length
  })
  expect(await Promise.all(sizes)).toEqual(Array(60).fill(body.length))
  session.destroy()
  theirs.destroy()
  ours.destroy()
})

it('takes no more than its limit from a writer when nobody reads at the other end', async () => {
  const [theirs, ours] = await pair()
  theirs.pause()
  const behind = new WriteBehind(ours)
  const chunk = Buffer.alloc(256 * 1024)
  let taken = 0
  const write = (): void => {
    behind.write(chunk, (error) => {
      if (error) return
      taken += chunk.length
      write()
    })
  }
  write()
  await new Promise((done) => setTimeout(done, 200))
  expect(taken).toBeGreaterThan(LIMITS.copyWindowBytes)
  expect(taken).toBeLessThanOrEqual(2 * LIMITS.copyWindowBytes + 1024 * 1024)
  const before = taken
  theirs.resume()
  await expect.poll(() => taken).toBeGreaterThan(before)
  behind.destroy()
  theirs.destroy()
})

it('ends in order, with everything that was written before', async () => {
  const [theirs, ours] = await pair()
  const behind = new WriteBehind(ours)
  behind.end(Buffer.alloc(3_000_000, 'y'))
  expect((await buffer(theirs)).length).toBe(3_000_000)
  await new Promise((done) => behind.once('close', done).resume())
  expect(ours.destroyed).toBe(true)
})

async function hostSession(socket: Socket): Promise<ClientHttp2Session> {
  const session = connectHttp2('http://sandbox', {
    createConnection: () => socket,
    settings: { initialWindowSize: LIMITS.streamWindowBytes },
    peerMaxConcurrentStreams: 100,
  })
  await new Promise((done) => session.once('remoteSettings', done))
  session.setLocalWindowSize(LIMITS.copyWindowBytes)
  return session
}
