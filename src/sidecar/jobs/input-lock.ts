/**
 * Decides which sender may send input to a job: one at a time. A sender that lost the turn does not get it back unless
 * it takes it.
 */

/** The sender of a request for input. */
export interface InputTurn {
  /**
   * The sender chooses this id and uses it in each of its requests. A request without an id takes over as a new sender.
   */
  readonly id: string | undefined
  /** True: this request takes over from the current sender. False: it continues, if no other sender has taken over. */
  readonly take: boolean
}

export interface Feeder {
  /**
   * The turn of the other sender begins when this returns. Bytes that have arrived by now still count, and later bytes
   * do not.
   */
  onTakeOver(): void
}

export class InputLock {
  #owner: string | symbol | undefined
  #feeder: Feeder | undefined

  /** A request that sends input is open. */
  get isFed(): boolean {
    return this.#feeder !== undefined
  }

  /** Returns false when another sender has taken over. */
  begin({ id, take }: InputTurn, feeder: Feeder): boolean {
    if (id !== undefined && !take && this.#owner !== undefined && this.#owner !== id) return false
    this.#owner = id ?? Symbol('somebody new')
    // This also ends an earlier request of the same sender, which is broken by now.
    this.#feeder?.onTakeOver()
    this.#feeder = feeder
    return true
  }

  /** The sender keeps the turn until another one takes it. */
  end(feeder: Feeder): void {
    if (this.#feeder === feeder) this.#feeder = undefined
  }
}
