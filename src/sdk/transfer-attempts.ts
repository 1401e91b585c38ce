/** How often a transfer may break off in a row without a byte of it moving. */
import { CraikError } from '../errors.ts'
import { LostConnection } from './transport.ts'

/**
 * Far more than restarts of the supervisor can explain. Each time the connection stood and the request was taken, so
 * patience with a supervisor that is away never ends: what breaks it off every time is the request itself.
 */
const MOST = 100

export class TransferAttempts {
  #brokenOff = 0

  /** Something of it arrived. */
  reset(): void {
    this.#brokenOff = 0
  }

  /** What to throw: a lost connection is tried again, so often. */
  checkError(error: unknown): unknown {
    if (!(error instanceof LostConnection) || ++this.#brokenOff < MOST) return error
    const message = `the supervisor disconnected ${MOST} times in a row without progress`
    return new CraikError('supervisor_unreachable', message, {
      hint: 'see why:  craik supervisor logs',
      cause: error,
    })
  }
}
