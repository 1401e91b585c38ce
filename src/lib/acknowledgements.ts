/** Tells the writer of a log how far its reader is: in steps, after a while, and at the end. */
import { setTimeout as sleep } from 'node:timers/promises'

export interface AcknowledgementOptions {
  /** Rejects when it did not arrive: the next one makes up for it. */
  readonly send: (position: number) => Promise<void>
  /** A log that is no longer than this drops nothing, so nobody has to be told. */
  readonly fromBytes: number
  readonly stepBytes: number
}

/** What is less than a step is acknowledged after this time. */
const EVERY_MS = 200
/** How long the end waits for its acknowledgement, which only frees space. */
const END_MS = 2000

/** One at a time, always the newest. */
export class Acknowledgements {
  readonly #options: AcknowledgementOptions
  #position: number
  #acknowledged: number
  #sending: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: AcknowledgementOptions, after = 0) {
    this.#options = options
    this.#position = after
    this.#acknowledged = after
  }

  /** The reader has everything before that position. */
  acknowledge(position: number): void {
    this.#position = position
    if (position < this.#options.fromBytes) return
    if (position - this.#acknowledged >= this.#options.stepBytes) this.#send()
    else this.#timer ??= setTimeout(() => this.#send(), EVERY_MS)
  }

  /** One that was lost on the way would leave both ends waiting. */
  repeat(): void {
    if (this.#position > 0 && this.#position >= this.#options.fromBytes) this.#send()
  }

  /** The reader has all of it. Resolves when the writer knows, or does not answer. */
  async end(): Promise<void> {
    if (this.#position < this.#options.fromBytes || this.#closed) return
    const flush = async () => {
      while (this.#sending !== undefined) await this.#sending
      if (this.#acknowledged < this.#position) this.#send()
      await this.#sending
    }
    const deadline = new AbortController()
    await Promise.race([flush(), sleep(END_MS, undefined, { signal: deadline.signal }).catch(() => {})])
    deadline.abort()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #send(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#closed || this.#sending !== undefined) return
    const position = this.#position
    this.#sending = this.#options
      .send(position)
      .then(
        () => {
          this.#acknowledged = position
        },
        () => {},
      )
      .finally(() => {
        this.#sending = undefined
        if (this.#position > position && !this.#closed) this.acknowledge(this.#position)
      })
  }
}
