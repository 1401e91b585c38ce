/** How long a job that was followed already may be out of reach before that is an error. */
import { CraikError } from '../errors.ts'
import { LostConnection } from './transport.ts'

/** After its supervisor died, a sandbox has to find the new one, which happens about once a second. */
const PATIENCE_MS = 30_000

export class RetryDeadlines {
  readonly #nowMs: () => number
  #failingSince: number | undefined
  #failedAt = 0

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Something of the job arrived. */
  reset(): void {
    this.#failingSince = undefined
  }

  /** What to throw: a sandbox that does not answer counts as a lost connection, for a while. */
  checkError(error: unknown): unknown {
    if (!(error instanceof CraikError) || error.code !== 'boundary_failed') return error
    // What runs inside did answer, and said no.
    if (error.details?.inside !== undefined) return error
    const nowMs = this.#nowMs()
    // Each failure comes soon after the one before, or it was in reach meanwhile, with nothing to say.
    if (nowMs - this.#failedAt > PATIENCE_MS) this.#failingSince = undefined
    this.#failedAt = nowMs
    this.#failingSince ??= nowMs
    const over = nowMs - this.#failingSince > PATIENCE_MS
    return over ? error : new LostConnection(error, true)
  }
}
