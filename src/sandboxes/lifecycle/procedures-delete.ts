/** Deleting a sandbox, and what may change of its record in between. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { NOTHING_COUNTED } from './counts.ts'
import { sandboxLinks } from './decide.ts'
import { revokeOwnerGrants } from './grants.ts'
import { saveCounts } from './procedures-counts.ts'
import { beginTransition, endInstance, endTransition, shortened } from './procedures-transition.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { BeginDeleteInput, BeginDeleteOutput, ChangeSandboxInput } from './tokens.ts'
import { LOSS, outcomeOf, TRANSITIONS } from './transitions.ts'

export async function beginDelete(
  keeper: SandboxRecords,
  input: BeginDeleteInput,
): Promise<BeginDeleteOutput> {
  const answer = await beginTransition(keeper, { ...input, verb: 'delete' })
  if (answer.effect === 'already') throw new CraikError('internal', 'a deleted sandbox still has a record')
  return answer
}

export interface EndDeleteInput {
  readonly id: SandboxId
  readonly status: 'passed' | 'failed' | 'indeterminate'
  readonly notice?: string
}

export async function endDelete(
  keeper: SandboxRecords,
  { id, status, notice }: EndDeleteInput,
): Promise<ReceiptRef> {
  const { pending, ...record } = await keeper.sandbox(id)
  if (record.state !== TRANSITIONS.delete.during || pending === null)
    throw new CraikError('conflict', `sandbox ${id} is not being deleted: it is ${record.state}`)
  if (outcomeOf('delete', status, pending.from) !== 'removed') {
    const ended = await endTransition(keeper, { id, status, ...(notice !== undefined && { notice }) })
    return ended.receipt
  }
  const { tables } = keeper
  await endInstance(keeper, id, 'removed')
  const receipt = await keeper.endPending(pending, { status })
  await revokeOwnerGrants(keeper, record, pending.begin.operator)
  await tables.sandboxJobs.removeAll(id)
  await tables.boundaryEpochs.removeAll(id)
  await tables.sandboxes.remove(id)
  return receipt
}

/** A sandbox that ended by itself leaves a receipt: nothing else would tell the log that it is gone. */
export async function changeSandbox(
  keeper: SandboxRecords,
  { id, state, place, epoch, notice, activeAtMs }: ChangeSandboxInput,
): Promise<SandboxRecord> {
  const record = await keeper.sandbox(id)
  if (state !== undefined && record.pending !== null)
    throw new CraikError('conflict', `sandbox ${id} is ${record.state}: its state cannot change now`)
  const isLost = state === LOSS.to && record.state !== LOSS.to
  if (isLost) await lose(keeper, record)
  // Receipts name it from now on: whoever comes after a crash has to know of it to close it.
  if (epoch !== undefined) await saveCounts(keeper, { id, epoch, counts: NOTHING_COUNTED })
  return keeper.put(
    {
      ...record,
      ...(isLost && { state: LOSS.to, stopped_at_ms: keeper.nowMs }),
      ...(place !== undefined && { place }),
      ...(epoch !== undefined && { epoch }),
      ...(notice !== undefined && { notice: shortened(notice) }),
      ...(activeAtMs !== undefined && { active_at_ms: Math.max(activeAtMs, record.active_at_ms ?? 0) }),
    },
    'update',
  )
}

async function lose(keeper: SandboxRecords, record: SandboxRecord): Promise<void> {
  const { id } = record
  if (!(LOSS.from as readonly string[]).includes(record.state))
    throw new CraikError('conflict', `sandbox ${id} is ${record.state}: it cannot become lost`)
  await endInstance(keeper, id, LOSS.to)
  await keeper.sealer.append(keeper.tables, {
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
