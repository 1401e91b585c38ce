/** Deletes a snapshot whose record was changed outside Craik. It uses only the id and nothing else of the record. */
import { CraikError } from '../../errors.ts'
import type { SnapshotId } from '../../lib/ids.ts'
import { parseGrant } from '../../policy/find-grant.ts'
import { revokeGrantIn } from '../../policy/grant-procedures.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { sandboxEnvelope } from '../lifecycle/create-procedures.ts'
import { commitDecision, evaluateSandbox } from '../lifecycle/decide-sandbox.ts'
import { isDamage } from '../lifecycle/sandbox-record.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import { snapshotIn } from './snapshot-procedures.ts'
import type {
  BeginDeleteDamagedSnapshotInput,
  BeginDeleteDamagedSnapshotOutput,
  EndDeleteDamagedSnapshotInput,
} from './tokens.ts'

/** More grants than a store contains. */
const ALL_GRANTS = 1_000_000

/**
 * Uses the policy envelope of the operator's sandboxes, because the snapshot's own envelope is named only in the
 * damaged record.
 */
export async function beginDeleteDamagedSnapshot(
  records: SandboxRecords,
  { id, operator, grantId, owner }: BeginDeleteDamagedSnapshotInput,
): Promise<BeginDeleteDamagedSnapshotOutput> {
  await requireDamaged(records, id)
  const evaluated = await evaluateSandbox(records, {
    capability: 'sandbox.snapshot',
    operation: 'delete',
    operator,
    target: `snapshot/${id}`,
    policyEnvelopeId: await sandboxEnvelope(records, operator),
    grantId,
  })
  return commitDecision(records, evaluated, { links: { target_id: id }, metadata: { damaged: true } }, owner)
}

/**
 * Ends the deletion. Call it when the files are gone. With `passed`, it revokes the grants for the snapshot and removes
 * its row.
 */
export async function endDeleteDamagedSnapshot(
  records: SandboxRecords,
  { id, begun, status }: EndDeleteDamagedSnapshotInput,
): Promise<ReceiptRef> {
  const { tables, sealer } = records
  if (status === 'passed') {
    await requireDamaged(records, id)
    await revokeGrantsFor(records, id, begun.begin.operator)
    await tables.snapshots.remove(id)
  }
  return sealer.append(tables, endDraft(begun.id, begun.begin, { status, metadata: { damaged: true } }))
}

async function requireDamaged(records: SandboxRecords, id: SnapshotId): Promise<void> {
  try {
    await snapshotIn(records, id)
  } catch (error) {
    if (isDamage(error)) return
    throw error
  }
  throw new CraikError('conflict', `the record of snapshot ${id} is not damaged`)
}

async function revokeGrantsFor(
  { tables, sealer, clock }: SandboxRecords,
  id: SnapshotId,
  operator: string,
): Promise<void> {
  for (const row of await tables.grants.list(ALL_GRANTS)) {
    if (row.revokedAtMs !== null || !row.document.includes(id)) continue
    if (parseGrant(row).target.ref === `snapshot/${id}`)
      await revokeGrantIn(tables, { id: row.id, operator }, sealer, clock)
  }
}
