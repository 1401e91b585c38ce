import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Listener } from './listen.ts'
import { Router } from './router.ts'
import { serve } from './server.ts'

let folder: string
let listener: Listener | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-listen-'))
})
afterEach(() => {
  listener?.close()
  rmSync(folder, { recursive: true })
})

const path = () => join(folder, 'sidecar.sock')

async function start(): Promise<void> {
  const router = new Router([{ method: 'GET', path: '/hello', handle: (call) => call.answer(200, {}) }])
  listener = new Listener({
    socket: path(),
    serve: (socket) => serve(socket, router, () => {}),
    log: () => {},
  })
  while (!existsSync(path())) await new Promise(setImmediate)
}

async function reach(): Promise<{ readonly socket: Socket; readonly session: ClientHttp2Session }> {
  const socket = connect(path())
  await once(socket, 'connect')
  const session = connectHttp2('http://sidecar', { createConnection: () => socket })
  session.on('error', () => {})
  return { socket, session }
}

async function hello(session: ClientHttp2Session): Promise<number> {
  const stream = session.request({ ':path': '/hello', 'craik-protocol': '1' })
  stream.resume()
  const [headers] = (await once(stream, 'response')) as [Record<string, number>]
  return headers[':status']!
}

it('serves a host, and the next one when the first is gone', async () => {
  await start()
  for (let i = 0; i < 3; i++) {
    const { socket, session } = await reach()
    expect(await hello(session)).toBe(200)
    socket.destroy()
  }
})

it('closes a connection when a newer one comes', async () => {
  await start()
  const older = await reach()
  expect(await hello(older.session)).toBe(200)
  const closed = once(older.socket, 'close')
  const newer = await reach()
  await closed
  expect(await hello(newer.session)).toBe(200)
  newer.socket.destroy()
})

it('replaces a socket that an earlier sidecar left', async () => {
  writeFileSync(path(), '')
  await start()
  const { socket, session } = await reach()
  expect(await hello(session)).toBe(200)
  socket.destroy()
})
