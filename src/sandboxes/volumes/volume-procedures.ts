/** The procedures of the writer thread for volumes. Only the record of a sandbox states which volumes it uses. */
import { endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { sandboxEnvelope } from '../lifecycle/create-procedures.ts'
import { commitDecision, evaluateSandbox } from '../lifecycle/decide-sandbox.ts'
import { MAX_SANDBOXES } from '../lifecycle/sandbox-record.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import { VOLUME_USES } from '../operations.ts'
import type { BeginDeleteVolumeInput, BeginDeleteVolumeOutput, EndDeleteVolumeInput } from './tokens.ts'
import { volumeTarget } from './volume.ts'
import { volumeInUseError, volumeUsers } from './volume-users.ts'

export async function beginDeleteVolume(
  records: SandboxRecords,
  { name, operator, grantId, owner }: BeginDeleteVolumeInput,
): Promise<BeginDeleteVolumeOutput> {
  const evaluated = await evaluateSandbox(records, {
    ...VOLUME_USES.delete,
    operator,
    target: volumeTarget(name),
    policyEnvelopeId: await sandboxEnvelope(records, operator),
    grantId,
  })
  if (evaluated.isAllowed) {
    const rows = await records.tables.sandboxes.list({}, 2 * MAX_SANDBOXES)
    const owner = volumeUsers(rows).get(name)
    if (owner !== undefined) throw volumeInUseError(name, owner)
  }
  return commitDecision(records, evaluated, { links: {} }, owner)
}

export function endDeleteVolume(
  records: SandboxRecords,
  { begun, status }: EndDeleteVolumeInput,
): Promise<ReceiptRef> {
  return records.sealer.append(records.tables, endDraft(begun.id, begun.begin, { status }))
}
