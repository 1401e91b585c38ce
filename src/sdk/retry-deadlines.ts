/** Limits how long a job that was already followed may be unreachable before that is an error. */
import { CraikError } from '../errors.ts'
import { LostConnection } from './transport.ts'

/** After its supervisor died, a sandbox has to find the new one, which it tries about once a second. */
const DEADLINE_MS = 30_000

export class RetryDeadlines {
  readonly #nowMs: () => number
  #failingSince: number | undefined
  #failedAt = 0

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Called when a part of the job's output arrived. */
  reset(): void {
    this.#failingSince = undefined
  }

  /** Returns the error to throw. For a while, a sandbox that does not answer counts as a lost connection. */
  checkError(error: unknown): unknown {
    if (!(error instanceof CraikError) || error.code !== 'boundary_failed') return error
    // The sidecar did answer, with an error.
    if (error.details?.inside !== undefined) return error
    const nowMs = this.#nowMs()
    // If the last failure was long ago, the sandbox was reachable in the meantime and had nothing to send.
    if (nowMs - this.#failedAt > DEADLINE_MS) this.#failingSince = undefined
    this.#failedAt = nowMs
    this.#failingSince ??= nowMs
    const over = nowMs - this.#failingSince > DEADLINE_MS
    return over ? error : new LostConnection(error, true)
  }
}
