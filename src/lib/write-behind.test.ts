/** Both ends of a connection send a lot of data at the same time, over real sockets. */
import { mkdtempSync, rmSync } from 'node:fs'
import { type ClientHttp2Session, connect as connectHttp2, performServerHandshake } from 'node:http2'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { WriteBehind } from './write-behind.ts'

const MIB = 1024 * 1024
const WAITING = 16 * MIB

let folder: string
let server: Server
let path: string
const opened: Duplex[] = []
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'craik-behind-'))
  path = join(folder, 'sock')
  server = createServer()
  await new Promise<void>((done) => server.listen(path, done))
})
afterEach(() => {
  for (const one of opened.splice(0)) one.destroy()
  server.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Returns the two ends of a connection. */
async function pair(): Promise<[Socket, Socket]> {
  const accepted = new Promise<Socket>((done) => server.once('connection', done))
  const dialled = connect(path)
  await new Promise((done) => dialled.once('connect', done))
  const ends: [Socket, Socket] = [await accepted, dialled]
  opened.push(...ends)
  return ends
}

it('completes many streams that send and receive at once', async () => {
  const [theirs, ours] = await pair()
  echo(new WriteBehind(ours, WAITING))
  await talksAtOnce(await client(theirs))
})

it('completes many streams when a relay between both ends reads nothing while it writes', async () => {
  const [theirs, near] = await pair()
  const [far, ours] = await pair()
  void passOneAtATime(near, far)
  echo(new WriteBehind(ours, WAITING))
  await talksAtOnce(await client(new WriteBehind(theirs, WAITING)))
})

it('takes no more than its limit from a writer while the other end reads nothing', async () => {
  const [theirs, ours] = await pair()
  theirs.pause()
  const behind = new WriteBehind(ours, WAITING)
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
  await expect.poll(() => taken, { timeout: 10_000 }).toBeGreaterThan(WAITING / 2)
  await new Promise((done) => setTimeout(done, 200))
  expect(taken).toBeLessThanOrEqual(WAITING + MIB)
  const before = taken
  theirs.resume()
  await expect.poll(() => taken, { timeout: 10_000 }).toBeGreaterThan(before)
  behind.destroy()
})

it('closes after it delivered everything that was written before', async () => {
  const [theirs, ours] = await pair()
  const behind = new WriteBehind(ours, WAITING)
  behind.end(Buffer.alloc(3_000_000, 'y'))
  expect((await buffer(theirs)).length).toBe(3_000_000)
  await new Promise((done) => behind.once('close', done).resume())
  expect(ours.destroyed).toBe(true)
})

function echo(stream: Duplex): void {
  const session = performServerHandshake(stream, { settings: { initialWindowSize: 256 * 1024 } })
  session.setLocalWindowSize(8 * MIB)
  session.on('error', () => {})
  session.on('stream', (each) => {
    each.on('error', () => {})
    each.respond({ ':status': 200 })
    each.pipe(each)
  })
}

async function client(stream: Duplex): Promise<ClientHttp2Session> {
  const session = connectHttp2('http://there', {
    createConnection: () => stream,
    settings: { initialWindowSize: 256 * 1024 },
    peerMaxConcurrentStreams: 100,
  })
  session.on('error', () => {})
  await new Promise((done) => session.once('remoteSettings', done))
  session.setLocalWindowSize(8 * MIB)
  return session
}

async function talksAtOnce(session: ClientHttp2Session): Promise<void> {
  const body = Buffer.alloc(256 * 1024, 'x')
  const sizes = Array.from({ length: 60 }, async () => {
    const stream = session.request({ ':method': 'POST', ':path': '/echo' })
    stream.end(body)
    return (await buffer(stream)).length
  })
  expect(await Promise.all(sizes)).toEqual(Array(60).fill(body.length))
  session.destroy()
}

/** Relays data between two sockets as a program with one loop and blocking writes does. */
async function passOneAtATime(one: Socket, other: Socket): Promise<void> {
  for (const each of [one, other]) each.on('error', () => {}).pause()
  while (!one.destroyed && !other.destroyed) {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      const chunk: Buffer | null = from.read()
      if (chunk !== null) await new Promise<void>((written) => to.write(chunk, () => written()))
    }
    await new Promise(setImmediate)
  }
}
