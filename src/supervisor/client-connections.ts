/** The open connections and requests of a server: who is served, and how to end that in order. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { BYTES_TYPE } from '../operator/api/api-constants.ts'

const POLL_MS = 10

export class ClientConnections {
  readonly #sockets = new Set<Socket>()
  /** Requests that are answered as a whole; streams are resumed elsewhere and wait for nobody. */
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

  /** Waits until what is answered as a whole is answered, then ends everything. */
  async end(timeoutMs: number): Promise<void> {
    const until = performance.now() + timeoutMs
    const hasUnanswered = () => [...this.#whole].some((response) => !response.headersSent)
    while (hasUnanswered() && performance.now() < until) await sleep(POLL_MS)
    // What was just answered gets to its reader before its connection ends.
    for (const response of this.#whole) if (response.writableEnded) response.socket?.destroySoon()
    await sleep(POLL_MS)
    for (const socket of this.#sockets) socket.destroy()
  }
}
