/** Dials the host's socket, serves the connection, and dials again when it is lost: for ever, with a growing pause. */
import { statSync } from 'node:fs'
import type { ServerHttp2Session } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { dirname } from 'node:path'

export interface SocketDialOptions {
  readonly socket: string
  readonly serve: (socket: Socket) => ServerHttp2Session
  readonly log: (line: string) => void
  /** The folder of the socket was removed on the host: nobody will ever listen there again. */
  readonly onForgotten: () => void
  readonly minPauseMs?: number
  readonly maxPauseMs?: number
}

const MIN_PAUSE_MS = 10
const MAX_PAUSE_MS = 1000

/** A connection that lived this long was a good one: the next pause is short again. */
const GOOD_AFTER_MS = 2000

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
      // A host that is done with the stream may leave the socket half open: nothing could come of it any more.
      this.#session.once('close', () => socket.destroy())
    })
    socket.on('error', (error) => {
      fault = error.message
    })
    socket.once('close', () => {
      this.#session = undefined
      if (this.#closed) return
      if (isRemoved(dirname(this.#options.socket))) return this.#options.onForgotten()
      const good = since !== undefined && performance.now() - since >= GOOD_AFTER_MS
      if (good) this.#pauseMs = this.#minPauseMs
      this.#say(fault)
      this.#timer = setTimeout(() => this.#dial(), this.#pauseMs)
      this.#pauseMs = Math.min(this.#maxPauseMs, this.#pauseMs * 2)
    })
  }

  /** The same fault again and again is said once. */
  #say(fault: string): void {
    if (fault !== this.#lastFault) this.#options.log(`reconnecting: ${fault}`)
    this.#lastFault = fault
  }
}

/** A folder that is shown inside stays when the host removes it, and then has no name left. */
function isRemoved(folder: string): boolean {
  try {
    return statSync(folder).nlink === 0
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}
