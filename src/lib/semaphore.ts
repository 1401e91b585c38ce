/** Lets a fixed number of callers run at the same time. The others wait in the order in which they came. */
export class Semaphore {
  readonly #most: number
  readonly #waiting: (() => void)[] = []
  #inside = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Runs `work` when a slot is free. A caller that aborts while it waits loses its place in the queue. */
  async run<T>(until: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
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

  /** Gives the slot to the next caller in the queue. */
  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#inside--
    else next()
  }
}
