/** Measures how long to wait for another process that makes no visible progress. */

/** If the gap between two checks is longer, this process did not run in between. Only this much of the gap counts. */
const MAX_STEP_MS = 6_000

/** Counts from zero again when the process to wait for changes. */
export class SupervisorTimeouts {
  readonly #nowMs: () => number
  #lastMs: number
  #whom: string | undefined
  #sameProcessMs = 0
  #totalMs = 0

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
    this.#lastMs = nowMs()
  }

  /** Must be called at each check, with a text that identifies the process to wait for, or `undefined` for none. */
  waitFor(whom: string | undefined): void {
    const nowMs = this.#nowMs()
    const stepMs = Math.min(nowMs - this.#lastMs, MAX_STEP_MS)
    this.#lastMs = nowMs
    this.#totalMs += stepMs
    this.#sameProcessMs = whom === this.#whom ? this.#sameProcessMs + stepMs : 0
    this.#whom = whom
  }

  get sameProcessMs(): number {
    return this.#sameProcessMs
  }

  get totalMs(): number {
    return this.#totalMs
  }
}
