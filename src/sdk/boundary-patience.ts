/** How long a job that was followed already may be out of reach before that is an error. */
import { CraikError } from '../errors.ts'
import { LostConnection } from './transport.ts'

/** After its supervisor died, a sandbox has to find the new one, which happens about once a second. */
const PATIENCE_MS = 30_000

export class BoundaryPatience {
  #failingSince: number | undefined

  /** Something of the job arrived. */
  reached(): void {
    this.#failingSince = undefined
  }

  /** What to throw: a sandbox that does not answer counts as a lost connection, for a while. */
  judge(error: unknown): unknown {
    if (!(error instanceof CraikError) || error.code !== 'boundary_failed') return error
    // What runs inside did answer, and said no.
    if (error.details?.inside !== undefined) return error
    this.#failingSince ??= performance.now()
    const over = performance.now() - this.#failingSince > PATIENCE_MS
    return over ? error : new LostConnection(error, true)
  }
}
