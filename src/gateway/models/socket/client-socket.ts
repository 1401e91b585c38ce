/**
 * The client's end of a WebSocket: whole messages in, counted against what its caller may have in memory, and events out,
 * as fast as it reads.
 */
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { type GatewayLimits, LARGE_BODY_BYTES } from '../../limits.ts'
import { LargeSlot, type MemoryBudget } from '../body.ts'
import { keepAlive } from './keep-alive.ts'

export type SocketFault = 'too_large' | 'too_slow' | 'no_room' | 'busy' | 'not_text' | 'not_utf8' | 'broken'

/** A message that is whole. What it takes up is given back by `release`. */
export interface Incoming {
  readonly body: Buffer
  readonly release: () => void
}

export interface ClientListener {
  message(incoming: Incoming): void
  /** It is put out for it. */
  fault(fault: SocketFault): void
}

/** Where what is sent comes from. */
interface Source {
  pause(): void
  resume(): void
}

/** A masked frame's head, of what has no length to speak of. */
const CONTROL_HEAD_BYTES = 6

export class ClientSocket {
  readonly #socket: WebSocket
  readonly #stream: Duplex
  readonly #room: MemoryBudget
  readonly #limits: GatewayLimits
  readonly #listener: ClientListener
  readonly #gone = new AbortController()
  readonly #held = new Set<Source>()
  /** Of a message that is not whole. */
  #partBytes = 0
  #partTimer: NodeJS.Timeout | undefined
  /** Of a message over 1 MiB that is not whole. */
  #slot: LargeSlot | undefined
  #unreadTimer: NodeJS.Timeout | undefined
  #behindSinceMs: number | undefined
  #waitedMs = 0
  #isBad = false

  constructor(
    socket: WebSocket,
    stream: Duplex,
    room: MemoryBudget,
    limits: GatewayLimits,
    listener: ClientListener,
  ) {
    this.#socket = socket
    this.#stream = stream
    this.#room = room
    this.#limits = limits
    this.#listener = listener
    stream.prependListener('data', (piece: Buffer) => this.#arrived(piece.length))
    stream.on('drain', () => this.#hasRead())
    stream.once('close', () => this.#ended())
    socket.on('message', (body: Buffer, isBinary) => this.#whole(body, isBinary))
    // Answered only while it reads: otherwise pings would pile up as answers.
    socket.on('ping', (data: Buffer) => {
      this.#control(data)
      if (!stream.writableNeedDrain) socket.pong(data, undefined, () => {})
    })
    socket.on('pong', (data: Buffer) => this.#control(data))
    socket.on('error', (error: NodeJS.ErrnoException) => this.#fault(faultOf(error)))
    socket.once('close', () => this.#ended())
    keepAlive(socket, stream, limits.pingMs)
  }

  /** It hung up, or was put out. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  /** It has not read what it was sent. */
  get isBehind(): boolean {
    return this.#stream.writableNeedDrain
  }

  /** For how long, in all, it had not read what it was sent. */
  get waitedMs(): number {
    return this.#waitedMs + (this.#behindSinceMs === undefined ? 0 : performance.now() - this.#behindSinceMs)
  }

  send(text: Buffer | string): void {
    if (this.gone.aborted || this.#socket.readyState !== this.#socket.OPEN) return
    this.#socket.send(text, { binary: false }, () => {})
    if (!this.isBehind) return
    this.#behindSinceMs ??= performance.now()
    this.#unreadTimer ??= setTimeout(() => this.#socket.terminate(), this.#limits.unreadMs)
  }

  /** Sends, and lets no more come from there while the client is behind. */
  forward(data: Buffer, source: Source): void {
    this.send(data)
    if (!this.isBehind || this.#held.has(source)) return
    this.#held.add(source)
    source.pause()
  }

  /** After what was sent. Whoever does not answer in kind is put out. */
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

  #arrived(bytes: number): void {
    // It is only read to its end.
    if (this.#isBad) return
    this.#count(bytes)
    this.#partTimer ??= setTimeout(() => this.#fault('too_slow'), this.#limits.bodyMs)
    if (this.#room.heldBytes > this.#limits.heldBytes) this.#fault('no_room')
    else if (this.#partBytes > LARGE_BODY_BYTES && this.#slot === undefined) void this.#waitForSlot()
  }

  /** Nothing more is read meanwhile. */
  async #waitForSlot(): Promise<void> {
    this.#slot = new LargeSlot(this.#room.scanner, this.gone)
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
    this.#room.heldBytes += body.length
    let held = body.length
    const release = () => {
      this.#room.heldBytes -= held
      held = 0
    }
    this.#listener.message({ body, release })
  }

  #fault(fault: SocketFault): void {
    if (this.#isBad || this.gone.aborted) return
    this.#isBad = true
    this.#listener.fault(fault)
    // Otherwise what is not whole would go on to grow until the client has left.
    if (fault === 'no_room' || fault === 'too_slow' || fault === 'busy') this.#socket.pause()
    this.#releaseSlot()
  }

  #count(bytes: number): void {
    this.#partBytes += bytes
    this.#room.heldBytes += bytes
  }

  #stopTimer(): void {
    clearTimeout(this.#partTimer)
    this.#partTimer = undefined
  }

  #ended(): void {
    this.#stopTimer()
    this.#releaseSlot()
    clearTimeout(this.#unreadTimer)
    this.#count(-this.#partBytes)
    this.#isBad = true
    this.#gone.abort()
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
