/** Deletes a sandbox whose record was changed outside Craik, by its id alone. Nothing in the record is followed. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { parseGrant } from '../../policy/find-grant.ts'
import { revokeGrantIn } from '../../policy/grant-procedures.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { OPERATIONS } from '../operations.ts'
import { closeEpochOf } from './count-procedures.ts'
import { sandboxEnvelope } from './create-procedures.ts'
import { commitDecision, evaluateSandbox } from './decide-sandbox.ts'
import { isDamage } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { BeginDeleteDamagedOutput, BeginDeleteInput, EndDeleteDamagedInput } from './tokens.ts'

/** More than a home has. */
const ALL_GRANTS = 1_000_000

/**
 * Evaluates the request under the envelope of the operator's sandboxes. Only the damaged record says which envelope
 * this sandbox had.
 */
export async function beginDeleteDamaged(
  records: SandboxRecords,
  { id, operator, grantId, owner }: BeginDeleteInput,
): Promise<BeginDeleteDamagedOutput> {
  await requireDamaged(records, id)
  const evaluated = await evaluateSandbox(records, {
    ...OPERATIONS.delete,
    operator,
    target: `sandbox/${id}`,
    policyEnvelopeId: await sandboxEnvelope(records, operator),
    grantId,
  })
  return commitDecision(records, evaluated, { links: { sandbox_id: id }, metadata: { damaged: true } }, owner)
}

/**
 * When the deletion passed, open receipts about the sandbox end as indeterminate, its grants are revoked and its rows
 * are removed.
 */
export async function endDeleteDamaged(
  records: SandboxRecords,
  { id, begun, status }: EndDeleteDamagedInput,
): Promise<ReceiptRef> {
  const { tables, sealer } = records
  const { operator } = begun.begin
  if (status === 'passed') {
    await requireDamaged(records, id)
    await endOpenReceipts(records, id, begun.id)
    for (const { epoch } of await tables.boundaryEpochs.open(id))
      await closeEpochOf(records, { operator, links: { sandbox_id: id } }, { id, epoch })
    await revokeGrantsFor(records, id, operator)
    await tables.sandboxJobs.removeAll(id)
    await tables.boundaryEpochs.removeAll(id)
    await tables.sandboxes.remove(id)
  }
  return sealer.append(tables, endDraft(begun.id, begun.begin, { status, metadata: { damaged: true } }))
}

async function requireDamaged(records: SandboxRecords, id: SandboxId): Promise<void> {
  try {
    await records.sandbox(id)
  } catch (error) {
    if (isDamage(error)) return
    throw error
  }
  throw new CraikError('conflict', `the record of sandbox ${id} is not damaged`)
}

/** Finds the receipts in the log, because the rows of the sandbox's jobs may have been changed like its own. */
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
