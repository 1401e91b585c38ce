/** Reports to the writer of a log how far its reader is: after each step, after a delay, and at the end. */
import { setTimeout as sleep } from 'node:timers/promises'

export interface AcknowledgementOptions {
  /** Rejects when the acknowledgement did not arrive. The next one makes up for it. */
  readonly send: (position: number) => Promise<void>
  /** The writer drops nothing of a log that is shorter than this, so it needs no acknowledgement. */
  readonly fromBytes: number
  readonly stepBytes: number
}

/** An amount below one step is acknowledged after this time. */
const EVERY_MS = 200
/** How long `end` waits for its acknowledgement, which only frees space. */
const END_MS = 2000

/** Sends one acknowledgement at a time, always for the newest position. */
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

  /** Records that the reader has everything before that position. */
  acknowledge(position: number): void {
    this.#position = position
    if (position < this.#options.fromBytes) return
    if (position - this.#acknowledged >= this.#options.stepBytes) this.#send()
    else this.#timer ??= setTimeout(() => this.#send(), EVERY_MS)
  }

  /** Sends the acknowledgement again. If it was lost, both ends would wait for each other. */
  repeat(): void {
    if (this.#position > 0 && this.#position >= this.#options.fromBytes) this.#send()
  }

  /** Acknowledges the whole log. Resolves when the writer has confirmed it or does not answer. */
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
