/** Only its own operator can change or read a record. */
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import type { Checked } from './read-agent-records.ts'
import { type OwnedRecord, type RecordKind, recordRefusalError, refusalOf } from './record-refusal.ts'

/**
 * Writes a denial receipt and throws when the record belongs to another operator. Operators can read their own record
 * even if it was changed.
 */
export async function requireOwn(
  log: ReceiptLog,
  operator: string,
  operation: string,
  kind: RecordKind,
  found: Checked<OwnedRecord>,
): Promise<void> {
  if (found.record.operator_subject === operator) return
  const { rule, reason, receipt } = refusalOf(kind, found, operator, operation)
  throw recordRefusalError({ rule, reason, receipt: await log.append(receipt) })
}
