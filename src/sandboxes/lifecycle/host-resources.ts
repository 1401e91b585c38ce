/** What of this machine a new sandbox is given, folders and logins: each is a question of its own, on record like any other. */
import type { ReceiptId } from '../../lib/ids.ts'
import { endDraft } from '../../receipts/log.ts'
import type { MountSpec, WorkspaceSpec } from '../backend.ts'
import { FOLDER_USES, LOGIN_USES, VOLUME_USES } from '../operations.ts'
import { volumeTarget } from '../volumes/volume.ts'
import { commitDecision, type EvaluatedRequest, evaluateSandbox, sandboxLinks } from './decide.ts'
import { createTarget } from './grants.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { BeginCreateInput, Denied } from './tokens.ts'

type Given = Pick<
  BeginCreateInput,
  | 'id'
  | 'name'
  | 'backend'
  | 'operator'
  | 'workspace'
  | 'mounts'
  | 'volumes'
  | 'credentials'
  | 'forkOf'
  | 'owner'
>

/** Spends and writes nothing yet. A grant is looked up for each: the one that the request names is for the sandbox. */
export async function evaluateHostResources(
  keeper: SandboxRecords,
  input: Given,
  policyEnvelopeId: string,
): Promise<readonly EvaluatedRequest[]> {
  const kept = input.forkOf === undefined ? [] : (await keeper.sandbox(input.forkOf)).spec.mounts
  const { operator, credentials = 'none' } = input
  const asked = { operator, target: createTarget(input.name), policyEnvelopeId }
  const judged: EvaluatedRequest[] = []
  for (const { use, folder } of foldersOf(input.workspace, input.mounts ?? [], kept))
    judged.push(await evaluateSandbox(keeper, { ...FOLDER_USES[use], ...asked, path: folder }))
  for (const { name } of input.volumes ?? [])
    judged.push(await evaluateSandbox(keeper, { ...VOLUME_USES.mount, ...asked, target: volumeTarget(name) }))
  // What a fork keeps was asked when it was first given.
  if (credentials !== 'none' && input.forkOf === undefined)
    judged.push(await evaluateSandbox(keeper, { ...LOGIN_USES[credentials], ...asked }))
  return judged
}

/** All are allowed. The sandbox's own receipts tell what came of it, so that these end as soon as they begin. */
export async function recordHostResources(
  keeper: SandboxRecords,
  judged: readonly EvaluatedRequest[],
  { id, backend, owner }: Given,
): Promise<Denied | { readonly effect: 'allowed'; readonly receipts: readonly ReceiptId[] }> {
  const receipts: ReceiptId[] = []
  for (const one of judged) {
    const settled = await commitDecision(keeper, one, { links: sandboxLinks({ id, backend }) }, owner)
    if (settled.effect === 'denied') return settled
    const { id: beginId, begin } = settled.begun
    await keeper.sealer.append(keeper.tables, endDraft(beginId, begin, { status: 'passed' }))
    receipts.push(beginId)
  }
  return { effect: 'allowed', receipts }
}

function foldersOf(
  workspace: WorkspaceSpec,
  mounts: readonly MountSpec[],
  kept: readonly MountSpec[],
): readonly { readonly use: keyof typeof FOLDER_USES; readonly folder: string }[] {
  const folders = new Set(mounts.map(({ folder }) => folder))
  for (const { folder } of kept) folders.delete(folder)
  return [
    ...(workspace.mode === 'in-place' ? [{ use: 'write' as const, folder: workspace.folder }] : []),
    ...[...folders].map((folder) => ({ use: 'read' as const, folder })),
  ]
}
