/** How long somebody else may take who is not seen to get on. */

/** A longer gap between two looks is time in which we did not run ourselves, and is not held against anybody. */
const MAX_STEP_MS = 6_000

/** Begins anew whenever it is another whom we wait for. */
export class SupervisorTimeouts {
  readonly #nowMs: () => number
  #lastMs: number
  #whom: string | undefined
  #withThisOneMs = 0
  #withAllMs = 0

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
    this.#lastMs = nowMs()
  }

  /** To be called at each look, with what tells one from another; undefined for nobody. */
  waitFor(whom: string | undefined): void {
    const nowMs = this.#nowMs()
    const stepMs = Math.min(nowMs - this.#lastMs, MAX_STEP_MS)
    this.#lastMs = nowMs
    this.#withAllMs += stepMs
    this.#withThisOneMs = whom === this.#whom ? this.#withThisOneMs + stepMs : 0
    this.#whom = whom
  }

  get withThisOneMs(): number {
    return this.#withThisOneMs
  }

  get withAllMs(): number {
    return this.#withAllMs
  }
}
