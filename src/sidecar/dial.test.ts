import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type ClientHttp2Session, connect } from 'node:http2'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Dialler } from './dial.ts'
import { PROTOCOL_HEADER } from './protocol.ts'
import { Router } from './router.ts'
import { serve } from './server.ts'
import { collectAnswer, until } from './sidecar.fixture.ts'

let folder: string
let dialler: Dialler | undefined
let server: Server | undefined
const log: string[] = []
const forgotten: string[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-dial-'))
  log.length = 0
  forgotten.length = 0
})
afterEach(async () => {
  dialler?.close()
  await hangUp()
  rmSync(folder, { recursive: true, force: true })
})

function startDialling(): void {
  const greeting = {
    method: 'GET',
    path: '/hello',
    handle: (call: { answer(s: number, v: unknown): void }) => call.answer(200, {}),
  } as const
  const router = new Router([greeting])
  dialler = new Dialler({
    socket: join(folder, 'host.sock'),
    serve: (socket) => serve(socket, router, () => {}),
    log: (line) => log.push(line),
    onFolderRemoved: () => forgotten.push('gone'),
    minPauseMs: 1,
    maxPauseMs: 20,
  })
}

/** Listens as the host, and resolves with the next connection. */
async function listen(): Promise<Socket> {
  server = createServer().listen(join(folder, 'host.sock'))
  const [socket] = await once(server, 'connection')
  return socket
}

async function hangUp(): Promise<void> {
  await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
  server = undefined
}

async function greet(socket: Socket): Promise<ClientHttp2Session> {
  const session = connect('http://sidecar', { createConnection: () => socket })
  session.on('error', () => {})
  expect((await collectAnswer(session.request({ ':path': '/hello', [PROTOCOL_HEADER]: '1' }))).status).toBe(
    200,
  )
  return session
}

describe('the dialler', () => {
  it('gives up only when the folder of the socket is removed', async () => {
    startDialling()
    await until(() => log.length > 0)
    expect(forgotten).toEqual([])
    rmSync(folder, { recursive: true })
    await until(() => forgotten.length > 0)
    expect(forgotten).toEqual(['gone'])
  })

  it('waits for a host that does not listen yet, and logs that once', async () => {
    startDialling()
    await until(() => log.length > 0)
    const session = await greet(await listen())
    expect(log.filter((line) => line.includes('ENOENT'))).toHaveLength(1)
    session.destroy()
  })

  it('dials again when the host closes the connection, in whatever way', async () => {
    startDialling()
    for (const leave of [
      (_: ClientHttp2Session, socket: Socket) => socket.destroy(),
      (session: ClientHttp2Session) => session.destroy(),
      (session: ClientHttp2Session) => session.close(),
    ]) {
      const socket = await listen()
      const session = await greet(socket)
      leave(session, socket)
      await hangUp()
    }
  })

  it('waits after a host refuses it, and then reconnects', async () => {
    startDialling()
    for (let times = 0; times < 3; times++) {
      const socket = await listen()
      socket.on('error', () => {})
      socket.resume()
      socket.end('there is a connection already\n')
      await hangUp()
    }
    ;(await greet(await listen())).destroy()
  })
})
