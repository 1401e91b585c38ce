/** Lets so many through at once; the others wait, in the order in which they came. */
export class Semaphore {
  readonly #most: number
  readonly #waiting: (() => void)[] = []
  #inside = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Who leaves while it waits is not kept. */
  async pass<T>(until: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    await this.#enter(until)
    try {
      return await work()
    } finally {
      this.#release()
    }
  }

  async #enter(until: AbortSignal | undefined): Promise<void> {
    until?.throwIfAborted()
    if (this.#inside < this.#most) {
      this.#inside++
      return
    }
    const turn = Promise.withResolvers<void>()
    const giveUp = () => {
      this.#waiting.splice(this.#waiting.indexOf(turn.resolve), 1)
      turn.reject(until!.reason)
    }
    this.#waiting.push(turn.resolve)
    until?.addEventListener('abort', giveUp, { once: true })
    try {
      await turn.promise
    } finally {
      until?.removeEventListener('abort', giveUp)
    }
  }

  /** Its room goes to the next one. */
  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#inside--
    else next()
  }
}
