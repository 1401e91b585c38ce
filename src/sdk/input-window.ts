/**
 * The part of a job's input that was read and has not arrived yet. It is kept so that it can be sent again, and its
 * size is limited.
 */
import type { Readable } from 'node:stream'

const WINDOW_BYTES = 1024 * 1024

interface Piece {
  readonly from: number
  readonly bytes: Buffer
}

export class InputWindow {
  readonly #source: Readable
  #pieces: Piece[] = []
  /** The offset in the job's input where this input begins, or `undefined` until that is known. */
  #base: number | undefined
  /** Everything before it has arrived. This offset, `#end` and the pieces count from the base. */
  #acknowledged = 0
  /** Everything before it was read. */
  #end = 0
  #resumed = false
  #ended = false
  #failure: Error | undefined
  #wake: (() => void)[] = []

  constructor(source: Readable, base: number | undefined) {
    this.#source = source
    this.#base = base
    void this.#fill()
  }

  /** The reason why the input could not be read. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Records that the job has everything before `offset`. */
  acknowledge(offset: number): void {
    if (this.#base === undefined || offset - this.#base <= this.#acknowledged) return
    this.#acknowledged = offset - this.#base
    while (this.#pieces.length > 0 && endOf(this.#pieces[0]!) <= this.#acknowledged) this.#pieces.shift()
    this.#notify()
  }

  /** Records that the job's input is at `offset`. Returns true the first time: this input begins or continues there. */
  resumeAt(offset: number): boolean {
    const isFirst = !this.#resumed
    this.#resumed = true
    this.#base ??= offset
    this.acknowledge(offset)
    return isFirst
  }

  /** Returns how much was read that has not arrived. Without an offset, uses the last acknowledgement. */
  unsentBytes(offset: number | undefined): number {
    const arrived = offset === undefined ? this.#acknowledged : offset - (this.#base ?? offset)
    return this.#end - Math.min(Math.max(arrived, 0), this.#end)
  }

  /** Yields the input from `offset` on, as it arrives, to its end. */
  async *from(offset: number, signal: AbortSignal): AsyncGenerator<Buffer> {
    let at = offset - (this.#base ?? 0)
    const stop = () => this.#notify()
    signal.addEventListener('abort', stop)
    try {
      while (!signal.aborted) {
        if (this.#failure !== undefined) throw this.#failure
        const piece = this.#pieces.find((candidate) => endOf(candidate) > at)
        if (piece !== undefined) {
          const part = piece.bytes.subarray(at - piece.from)
          at += part.length
          yield part
        } else if (this.#ended) return
        else await this.#change()
      }
    } finally {
      signal.removeEventListener('abort', stop)
    }
    throw signal.reason
  }

  /** Ends the input, because nothing reads the rest. */
  close(): void {
    this.#source.destroy()
    this.#ended = true
    this.#notify()
  }

  async #fill(): Promise<void> {
    try {
      for await (const chunk of this.#source as AsyncIterable<Buffer | string>) {
        const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
        if (bytes.length === 0) continue
        this.#pieces.push({ from: this.#end, bytes })
        this.#end += bytes.length
        this.#notify()
        while (this.#end - this.#acknowledged >= WINDOW_BYTES && !this.#ended) await this.#change()
      }
    } catch (error) {
      if (!this.#ended) this.#failure = error as Error
    }
    this.#ended = true
    this.#notify()
  }

  #change(): Promise<void> {
    return new Promise((done) => this.#wake.push(done))
  }

  #notify(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}

function endOf(piece: Piece): number {
  return piece.from + piece.bytes.length
}
