import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { LostConnection, Transport } from './transport.ts'

/** A server that does what the test says, and a client of it. */
class Connection implements Disposable {
  readonly transport: Transport
  readonly #folder = mkdtempSync(join(tmpdir(), 'craik-transport-'))
  readonly #accepted = Promise.withResolvers<Socket>()
  readonly #server = createServer((socket) => {
    socket.on('error', () => {})
    this.#sockets.push(socket)
    this.#accepted.resolve(socket)
  })
  readonly #sockets: Socket[] = []

  constructor() {
    const socketPath = join(this.#folder, 'api.sock')
    // The socket's name exists when this call returns.
    this.#server.listen(socketPath)
    this.transport = new Transport({ socketPath, token: 'none' })
  }

  post(body: Readable): Promise<IncomingMessage> {
    return this.transport.send({ method: 'POST', path: '/x', body })
  }

  /** Returns the server's end of the connection. */
  nextConnection(): Promise<Socket> {
    return this.#accepted.promise
  }

  [Symbol.dispose](): void {
    this.transport.close(true)
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Returns what was sent so far, once it contains all of `texts`. */
async function readUntil(socket: Socket, ...texts: readonly string[]): Promise<string> {
  let all = ''
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    all += chunk
    if (texts.every((text) => all.includes(text))) return all
  }
  throw new Error(`it ended before ${texts} came: ${all}`)
}

describe('a request whose body is open', () => {
  it('starts before the first byte of its body', async () => {
    const body = new PassThrough()
    using own = new Connection()
    const sent = own.post(body)
    const socket = await own.nextConnection()
    expect(await readUntil(socket, '\r\n\r\n')).toMatch(/^POST \/x HTTP\/1\.1\r\n/)
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
    expect((await sent).statusCode).toBe(200)
    body.end()
  })

  it('ends with the error of its response, however that arrives, and sends nothing after it', async () => {
    const error = JSON.stringify({ code: 'conflict', error: 'taken', details: { inside: 'changed' } })
    const answer = `HTTP/1.1 409 Conflict\r\ncontent-length: ${error.length}\r\n\r\n${error}`
    const head = answer.indexOf('{')
    for (const cuts of [[], [head], [20, head, head + 5], [answer.length - 1]]) {
      using own = new Connection()
      const body = new PassThrough()
      const failed = own.post(body).catch((thrown) => thrown)
      const socket = await own.nextConnection()
      body.write('before')
      await readUntil(socket, 'before')
      const after: string[] = []
      socket.on('data', (chunk) => after.push(chunk.toString()))
      const ended = once(socket, 'close')
      for (const [index, from] of [0, ...cuts].entries()) {
        socket.write(answer.slice(from, cuts[index]))
        await new Promise((done) => setTimeout(done, 20))
        if (from >= head) body.write('after')
      }
      expect(await failed).toMatchObject({
        code: 'conflict',
        message: 'taken',
        details: { inside: 'changed' },
      })
      expect(body.destroyed).toBe(true)
      await ended
      expect(after.join('')).toBe('')
    }
  })

  it('breaks off when its body does, with the reason when that is an error of Craik', async () => {
    for (const [reason, expected] of [
      [new CraikError('usage', 'no such tape'), CraikError],
      [new Error('EIO'), LostConnection],
      [undefined, LostConnection],
    ] as const) {
      using own = new Connection()
      const body = new PassThrough()
      const failed = own.post(body).catch((thrown) => thrown)
      const socket = await own.nextConnection()
      body.write('half')
      await readUntil(socket, 'half')
      const ended = once(socket, 'close')
      socket.resume()
      body.destroy(reason)
      expect(await failed).toBeInstanceOf(expected)
      await ended
    }
  })

  it('fails when its connection is lost, and its body is no longer read', async () => {
    const body = new PassThrough()
    using own = new Connection()
    const failed = own.post(body).catch((thrown) => thrown)
    const socket = await own.nextConnection()
    await readUntil(socket, '\r\n\r\n')
    socket.destroy()
    expect(await failed).toBeInstanceOf(LostConnection)
    expect(body.destroyed).toBe(true)
  })

  it('transfers a body of any length completely', async () => {
    const parts = Array.from({ length: 50 }, (_, index) => Buffer.alloc(30_000, index))
    using own = new Connection()
    const sent = own.post(Readable.from(parts, { objectMode: false }))
    const socket = await own.nextConnection()
    let bytes = 0
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (chunk.subarray(-5).toString() === '0\r\n\r\n')
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
    })
    expect((await sent).statusCode).toBe(200)
    expect(bytes).toBeGreaterThan(1_500_000)
  })
})
