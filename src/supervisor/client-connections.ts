/** Tracks the open connections and requests of a server, and ends them in an orderly way. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { BYTES_TYPE } from '../operator/api/api-constants.ts'

const POLL_MS = 10

export class ClientConnections {
  readonly #sockets = new Set<Socket>()
  /**
   * The requests that get one complete response. Streams are not in this set: clients resume them with the next
   * supervisor.
   */
  readonly #whole = new Set<ServerResponse>()

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (request.headers['content-type'] === BYTES_TYPE) return
      this.#whole.add(response)
      response.once('close', () => this.#whole.delete(response))
    })
  }

  get open(): number {
    return this.#sockets.size
  }

  /** Waits until each request in `#whole` has a response, then ends all connections. */
  async end(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs
    const hasUnanswered = () => [...this.#whole].some((response) => !response.headersSent)
    while (hasUnanswered() && performance.now() < until) await sleep(POLL_MS)
    // A response that was just written reaches its client before the connection ends.
    for (const response of this.#whole) if (response.writableEnded) response.socket?.destroySoon()
    await sleep(POLL_MS)
    for (const socket of this.#sockets) socket.destroy()
  }
}
