/** Whose turn it is to feed a job: one sender at a time, and who lost the turn does not get it back unasked. */

/** What a request for input says of its sender. */
export interface InputTurn {
  /** Chosen by the sender, the same for each of its requests. Without it, each request takes over as somebody new. */
  readonly id: string | undefined
  /** It takes over from whoever has the turn; otherwise it goes on, and only if nobody has taken over. */
  readonly take: boolean
}

export interface Feeder {
  /** Somebody else's turn begins when this returns: what has come by now still counts, and nothing after it. */
  onTakeOver(): void
}

export class InputLock {
  #owner: string | symbol | undefined
  #feeder: Feeder | undefined

  /** Somebody sends at this moment, or could. */
  get isFed(): boolean {
    return this.#feeder !== undefined
  }

  /** False: it is the turn of somebody else, who took over. */
  begin({ id, take }: InputTurn, feeder: Feeder): boolean {
    if (id !== undefined && !take && this.#owner !== undefined && this.#owner !== id) return false
    this.#owner = id ?? Symbol('somebody new')
    // Also from an earlier request of the same sender, which is broken by now.
    this.#feeder?.onTakeOver()
    this.#feeder = feeder
    return true
  }

  /** The turn stays with who had it, until it is taken. */
  end(feeder: Feeder): void {
    if (this.#feeder === feeder) this.#feeder = undefined
  }
}
