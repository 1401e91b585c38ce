/** Only a run's own operator can show and apply its changes. */
import { CraikError } from '../../errors.ts'
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import type { StoredChangeSet } from './change-set.ts'

/** Writes a denial receipt and throws for another operator. */
export async function requireOwnChanges(
  log: ReceiptLog,
  operator: string,
  operation: 'diff' | 'apply',
  { record }: StoredChangeSet,
): Promise<void> {
  const { run_id, sandbox_id, operator_subject } = record
  if (operator_subject === operator) return
  const receipt = await log.append({
    kind: 'denial',
    status: 'denied',
    operator,
    capability: 'agent.run',
    operation,
    target: run_id,
    links: { run_id, sandbox_id },
    decision: { effect: 'deny', rule: 'run.operator', missing: [], replayable: false },
  })
  throw new CraikError('denied', `run ${run_id} belongs to ${operator_subject}, not to ${operator}`, {
    hint: `show the current operator:  craik whoami   (nothing was done; receipt ${receipt.id})`,
    details: { rule: 'run.operator', receipt_id: receipt.id },
  })
}
