/** Tests connections over the boundary: to ports in the sandbox, and from the loopback port to the host. */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { ClientHttp2Stream } from 'node:http2'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LIMITS } from '../protocol.ts'
import { GatewayListener } from './gateway-listener.ts'
import { PortConnections } from './port-connections.ts'
import { networkRoutes } from './routes.ts'
import { collectBytes, responseOf, Served } from './served.fixture.ts'

let connections: PortConnections
let gateway: GatewayListener
let gatewayPort: number
let served: Served
const servers: Server[] = []

beforeEach(() => serve(300))
afterEach(async () => {
  await stop()
  for (const server of servers.splice(0)) server.close()
  expect(served.faults).toEqual([])
})

/** `acceptMs` is how long a connection from the sandbox waits until the host accepts it. */
async function serve(acceptMs: number): Promise<void> {
  connections = new PortConnections()
  gateway = new GatewayListener(connections, acceptMs)
  gatewayPort = await gateway.listen(0)
  served = new Served(networkRoutes(gateway, connections))
}

async function stop(): Promise<void> {
  await served[Symbol.asyncDispose]()
  await gateway.close()
}

async function listen(onSocket: (socket: Socket) => void, host = '127.0.0.1'): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {})
    onSocket(socket)
  })
  servers.push(server)
  server.listen(0, host)
  await once(server, 'listening')
  return (server.address() as { port: number }).port
}

async function forward(port: number): Promise<ClientHttp2Stream> {
  const stream = served.open('POST', `/ports/${port}`)
  expect((await responseOf(stream))[':status']).toBe(200)
  return stream
}

const waitForClose = async () => {
  while (connections.open > 0) await sleep(5)
}

describe('a port in the sandbox', () => {
  it('is reached with every byte, in both directions, with either end closing first', async () => {
    const port = await listen((socket) => socket.pipe(socket))
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ minLength: 1, maxLength: 70_000 }), { maxLength: 6 }),
        async (parts) => {
          const stream = await forward(port)
          const body = collectBytes(stream)
          for (const part of parts) stream.write(part)
          stream.end()
          expect((await body).equals(Buffer.concat(parts))).toBe(true)
        },
      ),
      { numRuns: 20 },
    )
    await waitForClose()
  })

  it('can end its own direction and still receive', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const port = await listen((socket) => {
      socket.end('bye')
      const heard: Buffer[] = []
      socket
        .on('data', (chunk: Buffer) => heard.push(chunk))
        .on('end', () => resolve(Buffer.concat(heard).toString()))
    })
    const stream = await forward(port)
    stream.resume()
    await once(stream, 'end')
    stream.end('still here')
    expect(await promise).toBe('still here')
    await waitForClose()
  })

  it('is found on IPv6 when no server listens on IPv4', async () => {
    const port = await listen((socket) => socket.end('six'), '::1')
    const stream = await forward(port)
    stream.end()
    expect((await collectBytes(stream)).toString()).toBe('six')
  })

  it('reports an error when no server listens, and when the number is not valid', async () => {
    const port = await listen(() => {})
    servers.pop()!.close()
    const refused = await served.ask('POST', `/ports/${port}`)
    expect(refused.status).toBe(502)
    expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 'refused' })
    for (const bad of ['0', '65536', '-1', 'x', '80.5', '%00'])
      expect((await served.ask('POST', `/ports/${bad}`)).status).toBe(400)
    expect(connections.open).toBe(0)
  })

  it('sees a break when the host cancels, and its own break reaches the host', async () => {
    const sockets: Socket[] = []
    const port = await listen((socket) => sockets.push(socket))
    const cancelled = await forward(port)
    while (sockets.length < 1) await sleep(5)
    cancelled.close(8)
    sockets[0]!.resume()
    // The socket may see an end first. Nothing receives what it writes then.
    while (!sockets[0]!.destroyed) {
      sockets[0]!.write('anybody?')
      await sleep(5)
    }
    const broken = await forward(port)
    while (sockets.length < 2) await sleep(5)
    sockets[1]!.resetAndDestroy()
    await collectBytes(broken)
    expect(broken.rstCode).toBe(8)
    await waitForClose()
  })

  it('is not read further than the host reads', async () => {
    let sent = 0
    const port = await listen((socket) => {
      const more = () => {
        while (sent < 256 * 1024 * 1024 && socket.write(Buffer.alloc(65_536))) sent += 65_536
      }
      socket.on('drain', more)
      more()
    })
    const stream = await forward(port)
    let before = -1
    while (before !== sent) {
      before = sent
      await sleep(100)
    }
    expect(sent).toBeLessThan(64 * 1024 * 1024)
    stream.close(8)
    await waitForClose()
  })
})

describe('the loopback port', () => {
  const accept = () => served.open('POST', '/accept')
  const dial = (): Socket => {
    const socket = connect({ host: '127.0.0.1', port: gatewayPort, allowHalfOpen: true })
    socket.on('error', () => {})
    return socket
  }

  it('joins a connection to a stream that the host holds open', async () => {
    const stream = accept()
    const socket = dial()
    socket.end('GET /')
    expect((await responseOf(stream))[':status']).toBe(200)
    const pending = collectBytes(stream)
    stream.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    expect((await pending).toString()).toBe('GET /')
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toContain('403')
    await waitForClose()
  })

  it('lets a connection wait for the host, which then gets all of its bytes', async () => {
    const socket = dial()
    socket.write('early')
    while (connections.open === 0) await sleep(5)
    const stream = accept()
    await responseOf(stream)
    const [chunk] = await once(stream, 'data')
    expect(String(chunk)).toBe('early')
    socket.destroy()
    stream.close()
    await waitForClose()
  })

  it('ends a connection that waits too long', async () => {
    const socket = dial()
    socket.resume()
    while (!socket.destroyed) await sleep(5)
    expect(socket.errored).toMatchObject({ code: 'ECONNRESET' })
    await waitForClose()
  })

  it('continues without the host, and a new connection of the host serves it again', async () => {
    const lost = accept()
    lost.on('error', () => {})
    await served[Symbol.asyncDispose]()
    const socket = dial()
    served = new Served(networkRoutes(gateway, connections))
    const stream = accept()
    await responseOf(stream)
    stream.end('new host')
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toBe('new host')
    socket.destroy()
    await waitForClose()
  })

  it('refuses connections above the limit of waiting ones', async () => {
    const sockets = Array.from({ length: LIMITS.waitingConnections + 20 }, () => dial())
    let closed = 0
    for (const socket of sockets) socket.resume().on('close', () => closed++)
    while (closed < 20) await sleep(5)
    // The others wait, and end when the host does not accept them.
    while (closed < sockets.length) await sleep(5)
    await waitForClose()
  })

  it('limits the idle streams of the host', async () => {
    const streams = Array.from({ length: 2 * LIMITS.acceptStreams }, () => accept())
    const refused = await served.ask('POST', '/accept')
    expect(refused.status).toBe(503)
    for (const stream of streams) stream.close(8)
  })

  it('serves many connections at once, each with its own response', async () => {
    await stop()
    await serve(60_000)
    const keep = () => {
      const stream = accept()
      responseOf(stream).then(
        () => {
          keep()
          stream.pipe(stream)
        },
        () => {},
      )
    }
    for (let at = 0; at < LIMITS.acceptStreams; at++) keep()
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, at) => {
        const socket = dial()
        socket.end(`number ${at}`)
        let heard = ''
        socket.on('data', (chunk: Buffer) => {
          heard += chunk.toString()
        })
        await once(socket, 'close')
        return heard
      }),
    )
    expect(answers).toEqual(Array.from({ length: 100 }, (_, at) => `number ${at}`))
  })

  it('is also a Unix socket, for programs that use one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'craik-gateway-'))
    try {
      await gateway.listenAt(join(folder, 'gateway.sock'))
      const stream = accept()
      const socket = connect(join(folder, 'gateway.sock'))
      socket.end('by a file')
      await responseOf(stream)
      const pending = collectBytes(stream)
      stream.end()
      expect(String(await pending)).toBe('by a file')
      socket.resume()
      await waitForClose()
      // No stream serves this connection, and a Unix socket has no reset, so it is only closed.
      const waiting = connect(join(folder, 'gateway.sock')).resume()
      await once(waiting, 'close')
      await waitForClose()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
