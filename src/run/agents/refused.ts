/** A refusal by the writer thread as an error: whose record it is, or that it was changed. */
import { CraikError } from '../../errors.ts'
import type { Refused } from './tokens.ts'

export function refusedError({ rule, reason, receipt }: Refused): CraikError {
  const isSeal = rule.endsWith('.seal')
  return new CraikError(isSeal ? 'tampered' : 'denied', reason, {
    hint: isSeal
      ? `nothing was done (receipt ${receipt.id}); check the log:  craik receipts verify`
      : `nothing was done (receipt ${receipt.id}); see who you are:  craik whoami`,
    details: { rule, receipt_id: receipt.id },
  })
}
