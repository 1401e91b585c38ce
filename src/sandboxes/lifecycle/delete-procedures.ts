/** Deletes sandboxes, and changes their records outside of transitions. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { saveCounts } from './count-procedures.ts'
import { NOTHING_COUNTED } from './count-receipts.ts'
import { sandboxLinks } from './decide-sandbox.ts'
import { revokeOwnerGrants } from './sandbox-grants.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { BeginDeleteInput, BeginDeleteOutput, ChangeSandboxInput } from './tokens.ts'
import { beginTransition, endInstance, endTransition, truncateNotice } from './transition-procedures.ts'
import { LOSS, outcomeOf, TRANSITIONS } from './transitions.ts'

export async function beginDelete(
  records: SandboxRecords,
  input: BeginDeleteInput,
): Promise<BeginDeleteOutput> {
  const answer = await beginTransition(records, { ...input, verb: 'delete' })
  if (answer.effect === 'already') throw new CraikError('internal', 'a deleted sandbox still has a record')
  return answer
}

export interface EndDeleteInput {
  readonly id: SandboxId
  readonly status: 'passed' | 'failed' | 'indeterminate'
  readonly notice?: string
}

export async function endDelete(
  records: SandboxRecords,
  { id, status, notice }: EndDeleteInput,
): Promise<ReceiptRef> {
  const { pending, ...record } = await records.sandbox(id)
  if (record.state !== TRANSITIONS.delete.during || pending === null)
    throw new CraikError('conflict', `sandbox ${id} is not being deleted: it is ${record.state}`, {
      hint: `show the sandbox:  craik sandbox show ${id}`,
    })
  if (outcomeOf('delete', status, pending.from) !== 'removed') {
    const ended = await endTransition(records, { id, status, ...(notice !== undefined && { notice }) })
    return ended.receipt
  }
  const { tables } = records
  await endInstance(records, id, 'removed')
  const receipt = await records.endPending(pending, { status })
  await revokeOwnerGrants(records, record, pending.begin.operator)
  await tables.sandboxJobs.removeAll(id)
  await tables.boundaryEpochs.removeAll(id)
  await tables.sandboxes.remove(id)
  return receipt
}

/**
 * Changes a record. A sandbox that ended by itself leaves a receipt, because nothing else in the log would show that it
 * is gone.
 */
export async function changeSandbox(
  records: SandboxRecords,
  { id, state, place: instance, epoch, notice, activeAtMs }: ChangeSandboxInput,
): Promise<SandboxRecord> {
  const record = await records.sandbox(id)
  if (state !== undefined && record.pending !== null)
    throw new CraikError('conflict', `sandbox ${id} is ${record.state}: its state cannot change now`, {
      hint: `wait until the operation ends:  craik sandbox show ${id}`,
    })
  const isLost = state === LOSS.to && record.state !== LOSS.to
  if (isLost) await recordLoss(records, record)
  // Receipts name this epoch from now on. After a crash, the next process must find the epoch to close it.
  if (epoch !== undefined) await saveCounts(records, { id, epoch, counts: NOTHING_COUNTED })
  return records.put(
    {
      ...record,
      ...(isLost && { state: LOSS.to, stopped_at_ms: records.nowMs }),
      ...(instance !== undefined && { place: instance }),
      ...(epoch !== undefined && { epoch }),
      ...(notice !== undefined && { notice: truncateNotice(notice) }),
      ...(activeAtMs !== undefined && { active_at_ms: Math.max(activeAtMs, record.active_at_ms ?? 0) }),
    },
    'update',
  )
}

async function recordLoss(records: SandboxRecords, record: SandboxRecord): Promise<void> {
  const { id } = record
  if (!(LOSS.from as readonly string[]).includes(record.state))
    throw new CraikError('conflict', `sandbox ${id} is ${record.state}: it cannot become lost`, {
      hint: `show the sandbox:  craik sandbox show ${id}`,
    })
  await endInstance(records, id, LOSS.to)
  await records.sealer.append(records.tables, {
    kind: 'sandbox_action',
    phase: 'point',
    status: 'failed',
    operator: record.operator,
    capability: 'sandbox.lifecycle',
    operation: 'lost',
    target: `sandbox/${id}`,
    links: { ...sandboxLinks(record), policy_envelope_id: record.policy_envelope_id },
  })
}
