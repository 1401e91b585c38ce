/** Deleting a sandbox, and what may change of its record in between. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { OPERATIONS } from '../operations.ts'
import { NOTHING_COUNTED } from './counts.ts'
import { judgeQuestion, linksOf, questionAbout, settle } from './decide.ts'
import { revokeOwnerGrants } from './grants.ts'
import { closeLeftEpochs, saveCounts } from './procedures-counts.ts'
import type { SandboxKeeper } from './sandbox-keeper.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { BeginDeleteInput, BeginDeleteOutput, ChangeSandboxInput } from './tokens.ts'

const MAX_NOTICE = 500

export async function beginDelete(
  keeper: SandboxKeeper,
  input: BeginDeleteInput,
): Promise<BeginDeleteOutput> {
  const record = await keeper.sandbox(input.id)
  const judged = await judgeQuestion(keeper, questionAbout(record, OPERATIONS.delete, input))
  if (judged.isAllowed && record.pending !== null) {
    throw new CraikError('conflict', `sandbox ${record.name} is ${record.state}: something else is at it`, {
      hint: `see what becomes of it:  craik sandbox show ${record.id}`,
    })
  }
  const settled = await settle(
    keeper,
    judged,
    { links: linksOf(record), ...(record.place && { isolation: record.place.isolation }) },
    input.owner,
  )
  if (settled.effect === 'denied') return settled
  const { begun } = settled
  const pending = { begin_id: begun.id, begin: begun.begin, owner: input.owner }
  return {
    effect: 'allowed',
    record: await keeper.put({ ...record, state: 'deleting', pending }, 'update'),
    begun,
  }
}

export interface EndDeleteInput {
  readonly id: SandboxId
  readonly status: 'passed' | 'failed' | 'indeterminate'
  readonly notice?: string
}

export async function endDelete(
  keeper: SandboxKeeper,
  { id, status, notice }: EndDeleteInput,
): Promise<ReceiptRef> {
  const { pending, ...record } = await keeper.sandbox(id)
  if (record.state !== 'deleting' || pending === null) {
    throw new CraikError('conflict', `sandbox ${id} is not being deleted: it is ${record.state}`)
  }
  if (status !== 'passed') {
    const receipt = await keeper.endPending(pending, { status })
    await endOpenJobs(keeper, id, { outcome: 'lost' })
    await keeper.put({ ...record, pending: null, state: 'lost', notice: shortened(notice) }, 'update')
    return receipt
  }
  const { tables } = keeper
  await endOpenJobs(keeper, id, { deleted: true })
  await closeLeftEpochs(keeper, { id })
  const receipt = await keeper.endPending(pending, { status })
  await revokeOwnerGrants(keeper, record, pending.begin.operator)
  await tables.sandboxJobs.removeAll(id)
  await tables.boundaryEpochs.removeAll(id)
  await tables.sandboxes.remove(id)
  return receipt
}

/** A sandbox that ended by itself leaves a receipt: nothing else would tell the log that it is gone. */
export async function changeSandbox(
  keeper: SandboxKeeper,
  { id, state, place, epoch, notice }: ChangeSandboxInput,
): Promise<SandboxRecord> {
  const record = await keeper.sandbox(id)
  if (state !== undefined && record.pending !== null)
    throw new CraikError('conflict', `sandbox ${id} is ${record.state}: its state is not changed meanwhile`)
  if (state === 'lost' && record.state !== 'lost') {
    await endOpenJobs(keeper, id, { outcome: 'lost' })
    await keeper.sealer.append(keeper.tables, {
      kind: 'sandbox_action',
      phase: 'point',
      status: 'failed',
      operator: record.operator,
      capability: 'sandbox.lifecycle',
      operation: 'lost',
      target: `sandbox/${id}`,
      links: { ...linksOf(record), policy_envelope_id: record.policy_envelope_id },
    })
  }
  // Receipts name it from now on: whoever comes after a crash has to know of it to close it.
  if (epoch !== undefined) await saveCounts(keeper, { id, epoch, counts: NOTHING_COUNTED })
  return keeper.put(
    {
      ...record,
      ...(state !== undefined && { state }),
      ...(place !== undefined && { place }),
      ...(epoch !== undefined && { epoch }),
      ...(notice !== undefined && { notice: shortened(notice) }),
    },
    'update',
  )
}

/** In the transaction after which none begins: also what was begun so late that nobody knows of it yet. */
async function endOpenJobs(
  keeper: SandboxKeeper,
  id: SandboxId,
  metadata: Readonly<Record<string, string | boolean>>,
): Promise<void> {
  for (const job of await keeper.openJobs(id)) {
    await keeper.endJob(job, { status: 'indeterminate', metadata })
  }
}

function shortened(notice: string | null | undefined): string | null {
  return notice?.slice(0, MAX_NOTICE).toWellFormed() ?? null
}
