/**
 * The sidecar's loopback port. Each connection to it is joined to a stream that the host holds open. Programs in the
 * sandbox can therefore reach the host's gateway and nothing else. The sidecar listens for as long as it runs. While
 * the host is disconnected, connections wait for a short time.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { LIMITS } from '../protocol.ts'
import { type RouteCall, SidecarError } from '../router.ts'
import { breakOff, joinSocket } from './join-sockets.ts'
import type { PortConnections } from './port-connections.ts'

/** A restart of the supervisor takes less. */
const WAIT_MS = 10_000

interface Waiting {
  readonly socket: Socket
  readonly detach: () => void
  readonly timer: NodeJS.Timeout
}

export class GatewayListener {
  readonly #server: Server
  /** For programs that reach the host through a Unix socket. */
  readonly #local: Server
  readonly #connections: PortConnections
  readonly #waitMs: number
  readonly #idle = new Set<RouteCall>()
  readonly #waiting = new Set<Waiting>()
  readonly #sockets = new Set<Socket>()

  constructor(connections: PortConnections, waitMs = WAIT_MS) {
    this.#connections = connections
    this.#waitMs = waitMs
    // Sockets start paused, so that no byte is read before a stream can take it.
    const createGatewayServer = () =>
      createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => this.#arrive(socket))
    this.#server = createGatewayServer()
    this.#local = createGatewayServer()
  }

  /** Resolves with the port. Port 0 selects any free one. */
  listen(port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ host: '127.0.0.1', port }, () => {
        this.#server.off('error', reject)
        // For example, no descriptor is left for one connection. The port continues to work.
        this.#server.on('error', () => {})
        const address = this.#server.address()
        resolve(typeof address === 'object' && address !== null ? address.port : port)
      })
    })
  }

  /**
   * Also listens on a Unix socket, for programs that use one as their proxy. If that fails, the sandbox has no such
   * socket.
   */
  listenAt(path: string): Promise<void> {
    return new Promise((resolve) => {
      this.#local.once('error', () => resolve())
      this.#local.listen(path, () => resolve())
      this.#local.on('error', () => {})
    })
  }

  /** Keeps the host's stream until a program connects. */
  accept(call: RouteCall): void {
    if (this.#idle.size >= 2 * LIMITS.acceptStreams)
      throw new SidecarError('busy', `${this.#idle.size} gateway connections already wait for programs`)
    for (const waiting of this.#waiting) {
      this.#waiting.delete(waiting)
      clearTimeout(waiting.timer)
      if (this.#serve(waiting.socket, waiting.detach, call)) return
    }
    this.#idle.add(call)
    call.signal.addEventListener('abort', () => this.#idle.delete(call), { once: true })
    if (call.signal.aborted) this.#idle.delete(call)
  }

  /** Ends every connection. Idempotent. */
  close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    const closed = [this.#server, this.#local].map(
      (server) => new Promise<void>((resolve) => server.close(() => resolve())),
    )
    return Promise.all(closed).then(() => {})
  }

  #arrive(socket: Socket): void {
    socket.on('error', () => {})
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    let release: () => void
    try {
      release = this.#connections.enter()
    } catch {
      breakOff(socket)
      return
    }
    for (const call of this.#idle) {
      this.#idle.delete(call)
      if (call.respond(200)) {
        joinSocket(socket, call.stream, release)
        return
      }
    }
    this.#wait(socket, release)
  }

  #wait(socket: Socket, release: () => void): void {
    if (this.#waiting.size >= LIMITS.waitingConnections) {
      breakOff(socket)
      release()
      return
    }
    const timer = setTimeout(() => breakOff(socket), this.#waitMs)
    const waiting: Waiting = { socket, detach: release, timer }
    this.#waiting.add(waiting)
    socket.once('close', () => {
      clearTimeout(timer)
      if (this.#waiting.delete(waiting)) release()
    })
  }

  /** Returns false when that connection is gone and the stream is still free. */
  #serve(socket: Socket, release: () => void, call: RouteCall): boolean {
    if (socket.destroyed) {
      release()
      return false
    }
    if (call.respond(200)) joinSocket(socket, call.stream, release)
    else {
      breakOff(socket)
      release()
    }
    return true
  }
}
