/**
 * The host resources of a new sandbox: folders, volumes and logins. Each needs a decision of its own, which is recorded
 * like any other.
 */
import type { ReceiptId } from '../../lib/ids.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { MountSpec, WorkspaceSpec } from '../backend.ts'
import { FOLDER_USES, LOGIN_USES, VOLUME_USES } from '../operations.ts'
import { volumeTarget } from '../volumes/volume.ts'
import { commitDecision, type EvaluatedRequest, evaluateSandbox, sandboxLinks } from './decide-sandbox.ts'
import { createTarget } from './sandbox-grants.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { BeginCreateInput, Denied } from './tokens.ts'

type HostResourceInput = Pick<
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

/**
 * Evaluates each resource. It spends no grant and writes nothing yet. Each needs its own grant, because the one that
 * the request names is for the sandbox.
 */
export async function evaluateHostResources(
  records: SandboxRecords,
  input: HostResourceInput,
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
  // The logins that a fork keeps were allowed when the original sandbox got them.
  if (credentials !== 'none' && input.forkOf === undefined)
    evaluated.push(await evaluateSandbox(records, { ...LOGIN_USES[credentials], ...request }))
  return evaluated
}

/**
 * Writes the receipts for resources that are all allowed, or for the first one that is denied. They end as soon as they
 * begin, because the sandbox's own receipts record the outcome.
 */
export async function recordHostResources(
  records: SandboxRecords,
  evaluated: readonly EvaluatedRequest[],
  { id, backend, owner }: HostResourceInput,
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
