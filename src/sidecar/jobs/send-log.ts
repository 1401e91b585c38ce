/** Sends a job's log to one reader over its stream, at the reader's pace, until the last frame. */
import type { ServerHttp2Stream } from 'node:http2'
import { encodeFrame, encodeJsonFrame, FRAME } from '../../lib/frames.ts'
import { LIMITS } from '../protocol.ts'
import type { JobLog, LogReader } from './job-log.ts'

/** Returns how much of the job's input has arrived. The reader gets each change. */
export type InputOffset = () => number

/**
 * Resolves when the reader has the last frame or is gone. Rejects with RangeError when no frame begins at the position.
 */
export async function sendLog(
  log: JobLog,
  stream: ServerHttp2Stream,
  after: number,
  inputOffset: InputOffset,
): Promise<void> {
  await new LogSender(log, stream, after, inputOffset).run()
}

/**
 * How many bytes may wait in the stream for the reader's window. It is more than Node's own 16 KiB, because that is
 * faster.
 */
const AHEAD_BYTES = 128 * 1024

class LogSender implements LogReader {
  readonly #log: JobLog
  readonly #stream: ServerHttp2Stream
  readonly #inputOffset: InputOffset
  readonly sinceMs = performance.now()
  #position: number
  #acknowledged = 0
  #quiet = true
  #aliveDue = false
  #woken = false
  #wake: (() => void) | undefined

  constructor(log: JobLog, stream: ServerHttp2Stream, after: number, inputOffset: InputOffset) {
    this.#log = log
    this.#stream = stream
    this.#position = after
    this.#inputOffset = inputOffset
  }

  get position(): number {
    return this.#position
  }

  wake(): void {
    this.#woken = true
    this.#wake?.()
  }

  async run(): Promise<void> {
    const wake = () => this.wake()
    const alive = setInterval(() => this.#tick(), LIMITS.aliveEveryMs)
    this.#stream.on('drain', wake)
    this.#stream.on('close', wake)
    this.#log.addReader(this)
    try {
      while (!this.#isGone()) {
        this.#woken = false
        const moved = this.#stream.writableLength < AHEAD_BYTES && (await this.#step())
        if (this.#log.hasEnded && this.#position === this.#log.position) break
        if (!moved) await this.#nextWake()
      }
      if (!this.#isGone()) this.#stream.end()
    } finally {
      clearInterval(alive)
      this.#stream.off('drain', wake)
      this.#stream.off('close', wake)
      this.#log.removeReader(this)
    }
  }

  /** Returns false when there is nothing to send now. */
  async #step(): Promise<boolean> {
    const offset = this.#inputOffset()
    if (offset !== this.#acknowledged) {
      this.#acknowledged = offset
      this.#write(encodeJsonFrame(FRAME.ack, { offset }))
      return true
    }
    const found = this.#log.read(this.#position)
    const piece = found instanceof Promise ? await found : found
    if (piece === undefined) {
      if (!this.#aliveDue) return false
      this.#aliveDue = false
      this.#write(encodeFrame(FRAME.alive, Buffer.alloc(0)))
      return true
    }
    if (this.#isGone()) return true
    if (Buffer.isBuffer(piece)) {
      this.#write(piece)
      this.#position += piece.length
    } else {
      this.#write(encodeJsonFrame(FRAME.gap, piece))
      this.#position = piece.to
    }
    this.#log.readerMoved()
    return true
  }

  #write(bytes: Buffer): void {
    this.#quiet = false
    this.#stream.write(bytes)
  }

  /** Sends an alive frame on a stream that was quiet for a while. */
  #tick(): void {
    if (this.#quiet) {
      this.#aliveDue = true
      this.wake()
    }
    this.#quiet = true
  }

  #isGone(): boolean {
    return this.#stream.destroyed || this.#stream.closed
  }

  async #nextWake(): Promise<void> {
    if (this.#woken) return
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    this.#wake = undefined
  }
}
