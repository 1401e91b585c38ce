/** Limits how often in a row a transfer may break off without moving a byte. */
import { CraikError } from '../errors.ts'
import { LostConnection } from './transport.ts'

/**
 * Far more than restarts of the supervisor can explain. Each time the connection worked and the supervisor accepted the
 * request, so the timeout for a missing supervisor never applies. The request itself must be what breaks the transfer
 * every time.
 */
const MAX_ATTEMPTS = 100

export class TransferAttempts {
  #brokenOff = 0

  /** Called when a part of the transfer arrived. */
  reset(): void {
    this.#brokenOff = 0
  }

  /** Returns the error to throw. A lost connection is retried, up to the limit. */
  checkError(error: unknown): unknown {
    if (!(error instanceof LostConnection) || ++this.#brokenOff < MAX_ATTEMPTS) return error
    const message = `the supervisor disconnected ${MAX_ATTEMPTS} times in a row without progress`
    return new CraikError('supervisor_unreachable', message, {
      hint: 'see why:  craik supervisor logs',
      cause: error,
    })
  }
}
