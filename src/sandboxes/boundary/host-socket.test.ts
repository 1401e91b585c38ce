import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { type HostSocket, openHostSocket } from './host-socket.ts'
import { expectCraikError } from './hostile-sidecar.fixture.ts'

let sandbox: string
let folder: string
let path: string
const open: HostSocket[] = []

beforeEach(() => {
  sandbox = tempFolder('craik-listen-')
  folder = join(sandbox, 'socket')
  path = join(folder, 'host.sock')
})

afterEach(async () => {
  for (const socket of open.splice(0)) await socket.close()
  rmSync(sandbox, { recursive: true, force: true })
})

interface Listening {
  readonly taken: Socket[]
  readonly refused: number[]
  readonly socket: HostSocket
  next(): Promise<Socket>
}

async function listen(at = folder): Promise<Listening> {
  const taken: Socket[] = []
  const refused: number[] = []
  let arrived = Promise.withResolvers<Socket>()
  const socket = await openHostSocket(at, {
    onConnection(stream) {
      taken.push(stream)
      stream.resume()
      arrived.resolve(stream)
      arrived = Promise.withResolvers()
    },
    onRefused: (connections) => refused.push(connections),
  })
  open.push(socket)
  return { taken, refused, socket, next: () => arrived.promise }
}

describe('openHostSocket', () => {
  it('creates a socket that every user in the sandbox can connect to, in a folder that only the host can write', async () => {
    await listen()
    expect(lstatSync(path).isSocket()).toBe(true)
    expect(lstatSync(path).mode & 0o777).toBe(0o666)
    expect(lstatSync(folder).mode & 0o777).toBe(0o755)
  })

  it('accepts the first connection and reports to the second that one is open', async () => {
    const { next, refused, taken } = await listen()
    const first = connect(path)
    await next()
    expect(await text(connect(path))).toMatch(/only one connection at a time\n$/)
    expect(taken.length).toBe(1)
    expect(refused).toEqual([1])
    first.destroy()
  })

  it('accepts the next connection after the first has closed', async () => {
    const { next } = await listen()
    const first = connect(path)
    const stream = await next()
    first.destroy()
    await once(stream, 'close')
    const second = connect(path)
    await next()
    second.destroy()
  })

  it('reports a flood of connections as one number', async () => {
    const { next, refused } = await listen()
    const first = connect(path)
    await next()
    const flood = Array.from({ length: 200 }, () => connect(path).on('error', () => {}))
    await Promise.all(flood.map((socket) => text(socket).catch(() => '')))
    expect(refused).toEqual([1])
    first.destroy()
  })

  it('replaces the socket that a killed process left', async () => {
    mkdirSync(folder)
    const left = createServer()
    left.listen(path)
    await once(left, 'listening')
    const inode = lstatSync(path).ino
    const { next } = await listen()
    expect(lstatSync(path).ino).not.toBe(inode)
    const socket = connect(path)
    await next()
    socket.destroy()
    left.close()
  })

  it.each([
    ['a file', (at: string) => writeFileSync(at, 'x')],
    ['a link to a socket elsewhere', (at: string) => symlinkSync('/run/other.sock', at)],
    ['a folder', (at: string) => mkdirSync(at)],
  ])('refuses %s at the path of its socket, and does not remove it', async (_, plant) => {
    mkdirSync(folder)
    plant(path)
    const before = lstatSync(path).ino
    expect(await expectCraikError(listen())).toMatchObject({ code: 'key_exposed' })
    expect(lstatSync(path).ino).toBe(before)
  })

  it('refuses a folder that is a symbolic link', async () => {
    const elsewhere = tempFolder('craik-elsewhere-')
    symlinkSync(elsewhere, folder)
    expect(await expectCraikError(listen())).toMatchObject({ code: 'home_unwritable' })
    expect(existsSync(join(elsewhere, 'host.sock'))).toBe(false)
    rmSync(elsewhere, { recursive: true })
  })

  it('refuses a folder that other users can write, and a folder whose parent they can enter', async () => {
    mkdirSync(folder)
    const { chmodSync } = await import('node:fs')
    chmodSync(folder, 0o777)
    expect(await expectCraikError(listen())).toMatchObject({ code: 'key_exposed' })
    chmodSync(folder, 0o755)
    chmodSync(sandbox, 0o755)
    expect(await expectCraikError(listen())).toMatchObject({ code: 'key_exposed' })
  })

  it('listens at a path that is longer than a socket address allows', async () => {
    const deep = join(sandbox, 'd'.repeat(120))
    mkdirSync(deep, { mode: 0o700 })
    await listen(join(deep, 'socket'))
    expect(lstatSync(join(deep, 'socket', 'host.sock')).isSocket()).toBe(true)
  })

  it('removes the socket and closes its connections once when it closes', async () => {
    const { next, socket } = await listen()
    const client = connect(path)
    await next()
    const gone = once(client, 'close')
    client.resume()
    await Promise.all([socket.close(), socket.close()])
    await gone
    expect(existsSync(path)).toBe(false)
  })

  it('never connects to a socket that it finds in its folder', async () => {
    // A socket could have been replaced by a trap. The host only unlinks its own name and listens; it connects to
    // nothing.
    mkdirSync(folder)
    let dialled = 0
    const trap = createServer(() => dialled++)
    trap.listen(join(folder, 'trap.sock'))
    await once(trap, 'listening')
    const { socket } = await listen()
    await socket.close()
    expect(dialled).toBe(0)
    trap.close()
  })
})
