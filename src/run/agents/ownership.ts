/** Records are for their own operator, to act on and to look at. */
import type { ReceiptLog } from '../../receipts/log.ts'
import type { Checked } from './records.ts'
import { type OwnedRecord, type RecordKind, refusalOf, refusedError } from './refused.ts'

/** Throws what another operator is told, after a denial receipt. Your own record may also be looked at when it was changed. */
export async function requireOwn(
  log: ReceiptLog,
  operator: string,
  operation: string,
  kind: RecordKind,
  found: Checked<OwnedRecord>,
): Promise<void> {
  if (found.record.operator_subject === operator) return
  const { rule, reason, receipt } = refusalOf(kind, found, operator, operation)
  throw refusedError({ rule, reason, receipt: await log.append(receipt) })
}
