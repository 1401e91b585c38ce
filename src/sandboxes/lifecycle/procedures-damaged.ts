/** Deleting a sandbox whose record was changed outside Craik: by its id alone, nothing that the record says is followed. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { revokeGrantIn } from '../../policy/grant-procedures.ts'
import { parseGrant } from '../../policy/lookup.ts'
import { endDraft } from '../../receipts/log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { OPERATIONS } from '../operations.ts'
import { commitDecision, evaluateSandbox } from './decide.ts'
import { closeEpochOf } from './procedures-counts.ts'
import { sandboxEnvelope } from './procedures-create.ts'
import { isDamage } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { BeginDeleteDamagedOutput, BeginDeleteInput, EndDeleteDamagedInput } from './tokens.ts'

/** More than there are. */
const ALL_GRANTS = 1_000_000

/** Judged under the envelope that every operator's sandboxes have: which one this had is the record's word. */
export async function beginDeleteDamaged(
  keeper: SandboxRecords,
  { id, operator, grantId, owner }: BeginDeleteInput,
): Promise<BeginDeleteDamagedOutput> {
  await requireDamaged(keeper, id)
  const judged = await evaluateSandbox(keeper, {
    ...OPERATIONS.delete,
    operator,
    target: `sandbox/${id}`,
    policyEnvelopeId: await sandboxEnvelope(keeper, operator),
    grantId,
  })
  return commitDecision(keeper, judged, { links: { sandbox_id: id }, metadata: { damaged: true } }, owner)
}

/** Passed: whatever the log still has open about it ends as indeterminate, its grants are revoked, its rows removed. */
export async function endDeleteDamaged(
  keeper: SandboxRecords,
  { id, begun, status }: EndDeleteDamagedInput,
): Promise<ReceiptRef> {
  const { tables, sealer } = keeper
  const { operator } = begun.begin
  if (status === 'passed') {
    await requireDamaged(keeper, id)
    await endOpenReceipts(keeper, id, begun.id)
    for (const { epoch } of await tables.boundaryEpochs.open(id))
      await closeEpochOf(keeper, { operator, links: { sandbox_id: id } }, { id, epoch })
    await revokeGrantsFor(keeper, id, operator)
    await tables.sandboxJobs.removeAll(id)
    await tables.boundaryEpochs.removeAll(id)
    await tables.sandboxes.remove(id)
  }
  return sealer.append(tables, endDraft(begun.id, begun.begin, { status, metadata: { damaged: true } }))
}

async function requireDamaged(keeper: SandboxRecords, id: SandboxId): Promise<void> {
  try {
    await keeper.sandbox(id)
  } catch (error) {
    if (isDamage(error)) return
    throw error
  }
  throw new CraikError('conflict', `the record of sandbox ${id} is not damaged`)
}

/** As the log tells of them: the rows of its jobs may have been changed like its own. */
async function endOpenReceipts(
  { tables, sealer }: SandboxRecords,
  id: SandboxId,
  own: string,
): Promise<void> {
  for (const open of await tables.openReceipts.list()) {
    const row = open.id === own ? undefined : await tables.receipts.get(open.id)
    if (row === undefined) continue
    const { body } = JSON.parse(row.line) as Receipt
    if (body.links.sandbox_id !== id) continue
    const epoch = body.metadata?.epoch
    const metadata = { deleted: true, ...(typeof epoch === 'string' && { epoch }) }
    await sealer.append(tables, endDraft(open.id, body, { status: 'indeterminate', metadata }))
  }
}

async function revokeGrantsFor(
  { tables, sealer, clock }: SandboxRecords,
  id: SandboxId,
  operator: string,
): Promise<void> {
  for (const row of await tables.grants.list(ALL_GRANTS)) {
    if (row.revokedAtMs !== null || !row.document.includes(id)) continue
    if (parseGrant(row).target.ref === `sandbox/${id}`)
      await revokeGrantIn(tables, { id: row.id, operator }, sealer, clock)
  }
}
