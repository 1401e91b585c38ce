/**
 * Listens for the host in the sandbox and serves one connection at a time: a newer connection replaces the older one.
 */
import { rmSync } from 'node:fs'
import type { ServerHttp2Session } from 'node:http2'
import { createServer, type Server, type Socket } from 'node:net'

export interface ListenOptions {
  readonly socket: string
  readonly serve: (socket: Socket) => ServerHttp2Session
  readonly log: (line: string) => void
}

/** The host connects again when it has lost a connection, and may notice that before the sidecar does. */
export class Listener {
  readonly #server: Server
  #socket: Socket | undefined

  constructor({ socket: path, serve, log }: ListenOptions) {
    // An earlier sidecar may have left its socket.
    rmSync(path, { force: true })
    this.#server = createServer((socket) => {
      this.#socket?.destroy()
      this.#socket = socket
      socket.on('error', (error) => log(`the host’s connection broke: ${error.message}`))
      const session = serve(socket)
      // A host that is done with the stream may leave the socket half open. No further request can arrive on it.
      session.once('close', () => socket.destroy())
      socket.once('close', () => session.destroy())
    })
    this.#server.on('error', (error) => {
      log(`cannot listen for the host: ${error.message}`)
      process.exitCode = 70
    })
    this.#server.listen(path)
  }

  close(): void {
    this.#server.close()
    this.#socket?.destroy()
  }
}
