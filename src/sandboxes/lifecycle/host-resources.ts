/** What of this machine a new sandbox is given, folders and logins: each is a question of its own, on record like any other. */
import type { ReceiptId } from '../../lib/ids.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { MountSpec, WorkspaceSpec } from '../backend.ts'
import { FOLDER_USES, LOGIN_USES, VOLUME_USES } from '../operations.ts'
import { volumeTarget } from '../volumes/volume.ts'
import { commitDecision, type EvaluatedRequest, evaluateSandbox, sandboxLinks } from './decide-sandbox.ts'
import { createTarget } from './sandbox-grants.ts'
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
  records: SandboxRecords,
  input: Given,
  policyEnvelopeId: string,
): Promise<readonly EvaluatedRequest[]> {
  const stored = input.forkOf === undefined ? [] : (await records.sandbox(input.forkOf)).spec.mounts
  const { operator, credentials = 'none' } = input
  const request = { operator, target: createTarget(input.name), policyEnvelopeId }
  const evaluated: EvaluatedRequest[] = []
  for (const { use, folder } of foldersOf(input.workspace, input.mounts ?? [], stored))
    evaluated.push(await evaluateSandbox(records, { ...FOLDER_USES[use], ...request, path: folder }))
  for (const { name } of input.volumes ?? [])
    evaluated.push(
      await evaluateSandbox(records, { ...VOLUME_USES.mount, ...request, target: volumeTarget(name) }),
    )
  // What a fork keeps was asked when it was first given.
  if (credentials !== 'none' && input.forkOf === undefined)
    evaluated.push(await evaluateSandbox(records, { ...LOGIN_USES[credentials], ...request }))
  return evaluated
}

/** All are allowed. The sandbox's own receipts tell what came of it, so that these end as soon as they begin. */
export async function recordHostResources(
  records: SandboxRecords,
  evaluated: readonly EvaluatedRequest[],
  { id, backend, owner }: Given,
): Promise<Denied | { readonly effect: 'allowed'; readonly receipts: readonly ReceiptId[] }> {
  const receipts: ReceiptId[] = []
  for (const one of evaluated) {
    const settled = await commitDecision(records, one, { links: sandboxLinks({ id, backend }) }, owner)
    if (settled.effect === 'denied') return settled
    const { id: beginId, begin } = settled.begun
    await records.sealer.append(records.tables, endDraft(beginId, begin, { status: 'passed' }))
    receipts.push(beginId)
  }
  return { effect: 'allowed', receipts }
}

function foldersOf(
  workspace: WorkspaceSpec,
  mounts: readonly MountSpec[],
  stored: readonly MountSpec[],
): readonly { readonly use: keyof typeof FOLDER_USES; readonly folder: string }[] {
  const folders = new Set(mounts.map(({ folder }) => folder))
  for (const { folder } of stored) folders.delete(folder)
  return [
    ...(workspace.mode === 'in-place' ? [{ use: 'write' as const, folder: workspace.folder }] : []),
    ...[...folders].map((folder) => ({ use: 'read' as const, folder })),
  ]
}
