/** What the writer thread does for volumes. Who has one is on record with the sandbox, and nowhere else. */
import { endDraft } from '../../receipts/log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { judgeQuestion, settle } from '../lifecycle/decide.ts'
import { sandboxEnvelope } from '../lifecycle/procedures-create.ts'
import type { SandboxKeeper } from '../lifecycle/sandbox-keeper.ts'
import { MAX_SANDBOXES } from '../lifecycle/sandbox-record.ts'
import { VOLUME_USES } from '../operations.ts'
import { taken, volumeHolders } from './holders.ts'
import type { BeginDeleteVolumeInput, BeginDeleteVolumeOutput, EndDeleteVolumeInput } from './tokens.ts'
import { volumeTarget } from './volume.ts'

export async function beginDeleteVolume(
  keeper: SandboxKeeper,
  { name, operator, grantId, owner }: BeginDeleteVolumeInput,
): Promise<BeginDeleteVolumeOutput> {
  const judged = await judgeQuestion(keeper, {
    ...VOLUME_USES.delete,
    operator,
    target: volumeTarget(name),
    policyEnvelopeId: await sandboxEnvelope(keeper, operator),
    grantId,
  })
  if (judged.isAllowed) {
    const rows = await keeper.tables.sandboxes.list({}, 2 * MAX_SANDBOXES)
    const holder = volumeHolders(rows).get(name)
    if (holder !== undefined) throw taken(name, holder)
  }
  return settle(keeper, judged, { links: {} }, owner)
}

export function endDeleteVolume(
  keeper: SandboxKeeper,
  { begun, status }: EndDeleteVolumeInput,
): Promise<ReceiptRef> {
  return keeper.sealer.append(keeper.tables, endDraft(begun.id, begun.begin, { status }))
}
