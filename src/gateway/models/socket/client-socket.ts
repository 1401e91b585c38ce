/**
 * The client's end of a WebSocket. It receives complete messages, counted against the caller's memory budget, and sends
 * events as fast as the client reads.
 */
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { type GatewayLimits, LARGE_BODY_BYTES } from '../../gateway-limits.ts'
import { LargeSlot, type MemoryBudget } from '../body.ts'
import { keepAlive } from './keep-alive.ts'

export type SocketFault = 'too_large' | 'too_slow' | 'no_room' | 'busy' | 'not_text' | 'not_utf8' | 'broken'

/** A complete message. `release` frees its memory. */
export interface Incoming {
  readonly body: Buffer
  readonly release: () => void
}

export interface ClientListener {
  message(incoming: Incoming): void
  /** The client is disconnected because of the fault. */
  fault(fault: SocketFault): void
}

/** The source of forwarded messages. */
interface Source {
  pause(): void
  resume(): void
}

/** The size of a masked frame's head for control frames. */
const CONTROL_HEAD_BYTES = 6

export class ClientSocket {
  readonly #socket: WebSocket
  readonly #stream: Duplex
  readonly #memory: MemoryBudget
  readonly #limits: GatewayLimits
  readonly #listener: ClientListener
  readonly #closed = new AbortController()
  readonly #held = new Set<Source>()
  /** The bytes of an incomplete message. */
  #partBytes = 0
  #partTimer: NodeJS.Timeout | undefined
  /** The slot of an incomplete message over 1 MiB. */
  #slot: LargeSlot | undefined
  #unreadTimer: NodeJS.Timeout | undefined
  #behindSinceMs: number | undefined
  #waitedMs = 0
  #isBad = false

  constructor(
    socket: WebSocket,
    stream: Duplex,
    memory: MemoryBudget,
    limits: GatewayLimits,
    listener: ClientListener,
  ) {
    this.#socket = socket
    this.#stream = stream
    this.#memory = memory
    this.#limits = limits
    this.#listener = listener
    stream.prependListener('data', (piece: Buffer) => this.#onBytes(piece.length))
    stream.on('drain', () => this.#hasRead())
    stream.once('close', () => this.#onEnd())
    socket.on('message', (body: Buffer, isBinary) => this.#whole(body, isBinary))
    // Pings are answered only while the client reads. Otherwise their answers would pile up.
    socket.on('ping', (data: Buffer) => {
      this.#control(data)
      if (!stream.writableNeedDrain) socket.pong(data, undefined, () => {})
    })
    socket.on('pong', (data: Buffer) => this.#control(data))
    socket.on('error', (error: NodeJS.ErrnoException) => this.#fault(faultOf(error)))
    socket.once('close', () => this.#onEnd())
    keepAlive(socket, stream, limits.pingMs)
  }

  /** Aborts when the client disconnects, or is disconnected. */
  get closeSignal(): AbortSignal {
    return this.#closed.signal
  }

  /** Whether the client has unread data. */
  get isBehind(): boolean {
    return this.#stream.writableNeedDrain
  }

  /** The total time during which the client had unread data. */
  get waitedMs(): number {
    return this.#waitedMs + (this.#behindSinceMs === undefined ? 0 : performance.now() - this.#behindSinceMs)
  }

  send(text: Buffer | string): void {
    if (this.closeSignal.aborted || this.#socket.readyState !== this.#socket.OPEN) return
    this.#socket.send(text, { binary: false }, () => {})
    if (!this.isBehind) return
    this.#behindSinceMs ??= performance.now()
    this.#unreadTimer ??= setTimeout(() => this.#socket.terminate(), this.#limits.unreadMs)
  }

  /** Sends, and pauses the source while the client has unread data. */
  forward(data: Buffer, source: Source): void {
    this.send(data)
    if (!this.isBehind || this.#held.has(source)) return
    this.#held.add(source)
    source.pause()
  }

  /** Closes after the sent data. A client that does not complete the close is disconnected. */
  close(code: number, reason: string): void {
    this.#socket.close(code, reason)
  }

  end(): void {
    this.#socket.terminate()
  }

  #hasRead(): void {
    clearTimeout(this.#unreadTimer)
    this.#unreadTimer = undefined
    this.#waitedMs = this.waitedMs
    this.#behindSinceMs = undefined
    for (const source of this.#held) source.resume()
    this.#held.clear()
  }

  #onBytes(bytes: number): void {
    // The rest is read and dropped.
    if (this.#isBad) return
    this.#count(bytes)
    this.#partTimer ??= setTimeout(() => this.#fault('too_slow'), this.#limits.bodyMs)
    if (this.#memory.heldBytes > this.#limits.heldBytes) this.#fault('no_room')
    else if (this.#partBytes > LARGE_BODY_BYTES && this.#slot === undefined) void this.#waitForSlot()
  }

  /** Reading is paused meanwhile. */
  async #waitForSlot(): Promise<void> {
    this.#slot = new LargeSlot(this.#memory.scanner, this.closeSignal)
    this.#socket.pause()
    const fault = await this.#slot.take()
    if (fault === 'busy') this.#fault('busy')
    else this.#socket.resume()
  }

  #releaseSlot(): void {
    this.#slot?.release()
    this.#slot = undefined
  }

  #control(data: Buffer): void {
    this.#count(-Math.min(this.#partBytes, data.length + CONTROL_HEAD_BYTES))
    if (this.#partBytes === 0) this.#stopTimer()
  }

  #whole(body: Buffer, isBinary: boolean): void {
    this.#count(-this.#partBytes)
    this.#stopTimer()
    this.#releaseSlot()
    if (this.#isBad) return
    if (isBinary) {
      this.#fault('not_text')
      return
    }
    this.#memory.heldBytes += body.length
    let held = body.length
    const release = () => {
      this.#memory.heldBytes -= held
      held = 0
    }
    this.#listener.message({ body, release })
  }

  #fault(fault: SocketFault): void {
    if (this.#isBad || this.closeSignal.aborted) return
    this.#isBad = true
    this.#listener.fault(fault)
    // Otherwise an incomplete message would grow until the client is gone.
    if (fault === 'no_room' || fault === 'too_slow' || fault === 'busy') this.#socket.pause()
    this.#releaseSlot()
  }

  #count(bytes: number): void {
    this.#partBytes += bytes
    this.#memory.heldBytes += bytes
  }

  #stopTimer(): void {
    clearTimeout(this.#partTimer)
    this.#partTimer = undefined
  }

  #onEnd(): void {
    this.#stopTimer()
    this.#releaseSlot()
    clearTimeout(this.#unreadTimer)
    this.#count(-this.#partBytes)
    this.#isBad = true
    this.#closed.abort()
  }
}

function faultOf({ code }: NodeJS.ErrnoException): SocketFault {
  switch (code) {
    case 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH':
    case 'WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH':
    case 'WS_ERR_TOO_MANY_BUFFERED_PARTS':
      return 'too_large'
    case 'WS_ERR_INVALID_UTF8':
      return 'not_utf8'
    default:
      return 'broken'
  }
}
