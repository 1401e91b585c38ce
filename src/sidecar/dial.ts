/**
 * Connects to the host's socket, serves the connection, and connects again when it is lost. It never gives up, and its
 * pauses grow.
 */
import { statSync } from 'node:fs'
import type { ServerHttp2Session } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { dirname } from 'node:path'

export interface SocketDialOptions {
  readonly socket: string
  readonly serve: (socket: Socket) => ServerHttp2Session
  readonly log: (line: string) => void
  /** Called when the folder of the socket was removed on the host, because no process will ever listen there again. */
  readonly onFolderRemoved: () => void
  readonly minPauseMs?: number
  readonly maxPauseMs?: number
}

const MIN_PAUSE_MS = 10
const MAX_PAUSE_MS = 1000

/** After a connection that lasted this long, the next pause is short again. */
const STABLE_AFTER_MS = 2000

/** Keeps exactly one connection to the host. */
export class Dialler {
  readonly #options: SocketDialOptions
  readonly #minPauseMs: number
  readonly #maxPauseMs: number
  #pauseMs: number
  #timer: NodeJS.Timeout | undefined
  #socket: Socket | undefined
  #session: ServerHttp2Session | undefined
  #lastFault = ''
  #closed = false

  constructor(options: SocketDialOptions) {
    this.#options = options
    this.#minPauseMs = options.minPauseMs ?? MIN_PAUSE_MS
    this.#maxPauseMs = options.maxPauseMs ?? MAX_PAUSE_MS
    this.#pauseMs = this.#minPauseMs
    this.#dial()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#session?.destroy()
    this.#socket?.destroy()
  }

  #dial(): void {
    let since: number | undefined
    let fault = 'the host closed the connection'
    const socket = connect(this.#options.socket)
    this.#socket = socket
    socket.once('connect', () => {
      since = performance.now()
      this.#session = this.#options.serve(socket)
      // A host that is done with the stream may leave the socket half open. No further request can arrive on it.
      this.#session.once('close', () => socket.destroy())
    })
    socket.on('error', (error) => {
      fault = error.message
    })
    socket.once('close', () => {
      this.#session = undefined
      if (this.#closed) return
      if (isRemoved(dirname(this.#options.socket))) return this.#options.onFolderRemoved()
      const good = since !== undefined && performance.now() - since >= STABLE_AFTER_MS
      if (good) this.#pauseMs = this.#minPauseMs
      this.#logFault(fault)
      this.#timer = setTimeout(() => this.#dial(), this.#pauseMs)
      this.#pauseMs = Math.min(this.#maxPauseMs, this.#pauseMs * 2)
    })
  }

  /** Logs a repeated fault only once. */
  #logFault(fault: string): void {
    if (fault !== this.#lastFault) this.#options.log(`reconnecting: ${fault}`)
    this.#lastFault = fault
  }
}

/**
 * When the host removes a folder that is mounted in the sandbox, the mount remains, but the folder has no name left.
 */
function isRemoved(folder: string): boolean {
  try {
    return statSync(folder).nlink === 0
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}
