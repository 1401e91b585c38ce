/** Removes a sandbox: its processes, its instance, its folder, and then its record. */
import type { SandboxId } from '../../lib/ids.ts'
import { type BackendName, type Isolation, type SandboxSpec, SUPPORTED_ISOLATION } from '../backend.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import { isDamage, type SandboxRecord } from '../lifecycle/sandbox-record.ts'
import {
  type BeginDeleteInput,
  type BeginDeleteOutput,
  beginDelete,
  beginDeleteDamaged,
  closeLeftEpochs,
  endDelete,
  endDeleteDamaged,
} from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ManagerOptions } from './manager-options.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { removeFolder, sandboxFolder } from './sandbox-folder.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance, removeDisk } from './start-instance.ts'
import { reasonOf, transitionError } from './transition.ts'

export async function deleteSandbox(
  options: ManagerOptions,
  registry: SandboxRegistry,
  retries: RecoveryRetries,
  caller: ManagerCaller,
  id: SandboxId,
  reason?: 'retention',
): Promise<void> {
  const input: BeginDeleteInput = {
    id,
    operator: caller.operator,
    ...(caller.grantId !== undefined && { grantId: caller.grantId }),
    owner: options.log.owner,
    // A sandbox that could not be taken over is deleted all the same.
    ...(retries.reasonFor(id) !== undefined && { takeOver: true }),
    ...(reason && { metadata: { reason } }),
  }
  let answer: BeginDeleteOutput
  try {
    answer = await options.store.write(beginDelete, input)
  } catch (error) {
    if (!isDamage(error)) throw error
    return deleteDamaged(options, registry, input)
  }
  if (answer.effect === 'denied') throw deniedOperationError(answer)
  retries.drop(id)
  // From here on, the deletion does not stop when the caller aborts, because a half-removed sandbox is useless.
  await finishDelete(options, registry, answer.record)
}

/**
 * Does not use the damaged record. The instance is found by the id alone, in every backend and isolation that it can
 * have.
 */
async function deleteDamaged(
  options: ManagerOptions,
  registry: SandboxRegistry,
  input: BeginDeleteInput,
): Promise<void> {
  const { store, home, backends } = options
  const { id } = input
  const answer = await store.write(beginDeleteDamaged, input)
  if (answer.effect === 'denied') throw deniedOperationError(answer)
  const { begun } = answer
  try {
    const active = registry.get(id)
    if (active !== undefined) await registry.release(active)
    await active?.session.instance?.destroy()
    for (const [name, isolations] of Object.entries(SUPPORTED_ISOLATION)) {
      const backend = backends[name as BackendName]
      for (const isolation of isolations) {
        const spec = bareSpec(home.sandboxes, id, isolation)
        await backend?.sweep(spec, undefined)
        await backend?.discard?.(spec)
      }
    }
    await removeFolder(home.sandboxes, id)
  } catch (error) {
    await store.write(endDeleteDamaged, { id, begun, status: 'failed' })
    throw error
  }
  await store.write(endDeleteDamaged, { id, begun, status: 'passed' })
}

/** Returns a spec for a sandbox of which only the id is reliable. */
export function bareSpec(sandboxes: string, id: SandboxId, isolation: Isolation): SandboxSpec {
  return {
    id,
    isolation,
    folder: sandboxFolder(sandboxes, id),
    workspace: { mode: 'copy' },
    limits: { memoryBytes: 0, processes: 0 },
    hostUser: undefined,
  }
}

async function finishDelete(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  try {
    await takeDown(options, registry, record)
  } catch (error) {
    await options.store.write(endDelete, {
      id: record.id,
      status: 'failed',
      notice: `it could not be removed: ${reasonOf(error)}`,
    })
    throw transitionError(error, `sandbox ${record.name} could not be removed`)
  }
  await options.store.write(endDelete, { id: record.id, status: 'passed' })
}

/** Ends everything that runs in a sandbox and removes everything of it, whatever state it was in. */
async function takeDown(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  const active = registry.get(record.id)
  if (active !== undefined) {
    active.ending = true
    // A frozen process would not end.
    if (active.paused) await active.session.instance?.unpause?.().catch(() => {})
  }
  await clearInstance(options, registry, record)
  await removeDisk(options, registry, record)
  await options.store.write(closeLeftEpochs, { id: record.id })
  await options.forget?.(record)
}
