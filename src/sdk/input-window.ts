/** What was read of a job's input and has not arrived yet: kept, so that it can be sent again, and bounded. */
import type { Readable } from 'node:stream'

const WINDOW_BYTES = 1024 * 1024

interface Piece {
  readonly from: number
  readonly bytes: Buffer
}

export class InputWindow {
  readonly #source: Readable
  #pieces: Piece[] = []
  /** Where in the job's input this one begins; undefined until that is known. */
  #base: number | undefined
  /** Everything before it has arrived. Offsets in here count from the base. */
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

  /** Why the input could not be read. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** The other end has everything before `offset`. */
  acknowledge(offset: number): void {
    if (this.#base === undefined || offset - this.#base <= this.#acknowledged) return
    this.#acknowledged = offset - this.#base
    while (this.#pieces.length > 0 && endOf(this.#pieces[0]!) <= this.#acknowledged) this.#pieces.shift()
    this.#notify()
  }

  /** The other end stands at `offset`. True the first time: that is where this input begins, or goes on. */
  resumeAt(offset: number): boolean {
    const isFirst = !this.#resumed
    this.#resumed = true
    this.#base ??= offset
    this.acknowledge(offset)
    return isFirst
  }

  /** How much was read that has not arrived; without an offset, as far as that was acknowledged. */
  unsentBytes(offset: number | undefined): number {
    const arrived = offset === undefined ? this.#acknowledged : offset - (this.#base ?? offset)
    return this.#end - Math.min(Math.max(arrived, 0), this.#end)
  }

  /** The input from `offset` on, as it comes, to its end. */
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

  /** Nobody wants the rest. */
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
