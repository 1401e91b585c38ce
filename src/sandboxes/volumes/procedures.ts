/** What the writer thread does for volumes. Who has one is on record with the sandbox, and nowhere else. */
import { endDraft } from '../../receipts/log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { commitDecision, evaluateSandbox } from '../lifecycle/decide.ts'
import { sandboxEnvelope } from '../lifecycle/procedures-create.ts'
import { MAX_SANDBOXES } from '../lifecycle/sandbox-record.ts'
import type { SandboxRecords } from '../lifecycle/sandbox-records.ts'
import { VOLUME_USES } from '../operations.ts'
import type { BeginDeleteVolumeInput, BeginDeleteVolumeOutput, EndDeleteVolumeInput } from './tokens.ts'
import { volumeTarget } from './volume.ts'
import { volumeInUseError, volumeUsers } from './volume-users.ts'

export async function beginDeleteVolume(
  keeper: SandboxRecords,
  { name, operator, grantId, owner }: BeginDeleteVolumeInput,
): Promise<BeginDeleteVolumeOutput> {
  const judged = await evaluateSandbox(keeper, {
    ...VOLUME_USES.delete,
    operator,
    target: volumeTarget(name),
    policyEnvelopeId: await sandboxEnvelope(keeper, operator),
    grantId,
  })
  if (judged.isAllowed) {
    const rows = await keeper.tables.sandboxes.list({}, 2 * MAX_SANDBOXES)
    const holder = volumeUsers(rows).get(name)
    if (holder !== undefined) throw volumeInUseError(name, holder)
  }
  return commitDecision(keeper, judged, { links: {} }, owner)
}

export function endDeleteVolume(
  keeper: SandboxRecords,
  { begun, status }: EndDeleteVolumeInput,
): Promise<ReceiptRef> {
  return keeper.sealer.append(keeper.tables, endDraft(begun.id, begun.begin, { status }))
}
