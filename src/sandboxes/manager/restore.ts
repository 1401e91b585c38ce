/**
 * Restores a sandbox from a snapshot. The new disk is created beside the old one, which is removed only when the new
 * one works.
 */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { getSandbox } from '../lifecycle/read-records.ts'
import type { RecordedInstance, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { closeLeftEpochs, closeOrphans } from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import { getSnapshot } from '../snapshots/read-snapshots.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import { sendLogins } from './put-logins.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { requireSandboxFolder } from './sandbox-folder.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance, type Started, startInstance, undoInstance } from './start-instance.ts'
import { GRACE_MS, windDown } from './stop.ts'
import { disksOf } from './take-snapshot.ts'
import { beginTransitionOf, endTransitionOf, reasonOf, transitionError } from './transition.ts'
import { fillDisk, requireFit } from './use-snapshot.ts'

export async function restoreSandbox(
  options: ManagerOptions,
  registry: SandboxRegistry,
  retries: RecoveryRetries,
  caller: ManagerCaller,
  id: SandboxId,
  snapshotIdOrName: string,
): Promise<SandboxRecord> {
  const found = await getSnapshot(options, snapshotIdOrName).catch((error: unknown) => ({ error }))
  const answer = await beginTransitionOf(options, caller, id, {
    verb: 'restore',
    ...('id' in found && { metadata: { snapshot: found.id, digest: found.digest } }),
    ...(options.admission && { admission: await options.admission() }),
  })
  if (answer.effect === 'already') throw new CraikError('internal', 'a restore cannot already be done')
  const { record } = answer
  try {
    // Only a caller who may restore learns which snapshots exist.
    if (!('id' in found)) throw found.error
    requireFit(found, {
      backend: record.backend,
      workspace: record.spec.workspace.mode,
      image: record.spec.container
        ? { id: record.spec.container.image, name: record.spec.container.imageName }
        : undefined,
    })
  } catch (error) {
    await endTransitionOf(options, registry, { id, status: 'failed' })
    throw error
  }
  return exchange(options, registry, retries, caller, record, found)
}

/**
 * Exchanges the disk. If it throws after the old instance is gone, it has put the old disk back, and has started the
 * sandbox again if it ran.
 */
async function exchange(
  options: ManagerOptions,
  registry: SandboxRegistry,
  retries: RecoveryRetries,
  caller: ManagerCaller,
  record: SandboxRecord,
  snapshot: SnapshotRecord,
): Promise<SandboxRecord> {
  const { id } = record
  const disks = disksOf(options, record)
  const spec = registry.specOf(record)
  const ran = record.pending?.from === 'running'
  const beganAtMs = options.clock.nowMs()
  const made: Started = {}
  let isCleared = false
  try {
    await requireSandboxFolder(options.home.sandboxes, id)
    // The sandbox still runs here. It is not stopped for a snapshot that cannot be used.
    const leftOut = await fillDisk(options, caller, snapshot, spec, record.backend)
    caller.signal.throwIfAborted()
    isCleared = true
    await windDown(options, registry, id, GRACE_MS)
    await clearInstance(options, registry, record)
    await closeLeft(options, id)
    await disks.exchange(spec)
    const instance = ran ? await startInstance(options, registry, record, made, NEVER) : undefined
    const restored = await endTransitionOf(options, registry, {
      id,
      status: 'passed',
      ...(instance && { place: instance }),
      measures: [observedMeasure('duration_ms', options.clock.nowMs() - beganAtMs)],
      notice: `restored from snapshot ${snapshot.name}${leftOut === undefined ? '' : `, ${leftOut}`}`,
    })
    watch(registry, made, 'restored')
    if (made.active !== undefined) await sendLogins(options, made.active, record, caller)
    await disks.keepCurrent(spec).catch((error) => complain(options, id, error))
    return restored
  } catch (error) {
    try {
      // A restore that is recorded as done is not undone, even if the confirmation of the write was lost.
      if ((await getSandbox(options, id)).pending === null) throw error
      await undo(options, registry, record, made, isCleared)
    } catch (left) {
      // The record stays `restoring`, and the undo is retried as soon as possible.
      complain(options, id, left)
      retries.later(id, left)
    }
    throw transitionError(error, `sandbox ${record.name} could not be restored`)
  }
}

async function undo(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
  made: Started,
  isCleared: boolean,
): Promise<void> {
  const { id } = record
  const spec = registry.specOf(record)
  const ran = record.pending?.from === 'running'
  if (isCleared) {
    await undoInstance(registry, spec, requireBackend(options.backends, record.backend), made)
    await clearInstance(options, registry, record)
  }
  await disksOf(options, record).revert(spec)
  const again: Started = {}
  let instance: RecordedInstance | undefined
  if (isCleared && ran) {
    try {
      instance = await startInstance(options, registry, record, again, NEVER)
    } catch (error) {
      complain(options, id, error)
      await undoInstance(registry, spec, requireBackend(options.backends, record.backend), again)
    }
  }
  await endTransitionOf(options, registry, { id, status: 'failed', ...(instance && { place: instance }) })
  if (instance !== undefined) watch(registry, again, 'resumed')
}

/**
 * Undoes a restore that an earlier process left unfinished. The sandbox gets its previous disk, and continues if it
 * still runs with that disk.
 */
export async function undoRestore(
  options: ManagerOptions,
  registry: SandboxRegistry,
  record: SandboxRecord,
): Promise<void> {
  const disks = disksOf(options, record)
  const spec = registry.specOf(record)
  const isUntouched = record.pending?.from === 'running' && !(await disks.isExchanged(spec))
  if (!isUntouched) await clearInstance(options, registry, record)
  await disks.revert(spec)
}

function watch(registry: SandboxRegistry, { active, instance }: Started, event: string): void {
  if (active === undefined || instance === undefined) return
  active.session.events.add(event)
  registry.watch(active, instance)
}

/** Closes what the old instance left: jobs that no process follows yet, and the counts of its boundary. */
async function closeLeft({ store, log }: ManagerOptions, id: SandboxId): Promise<void> {
  await store.write(closeOrphans, { id, keep: [], owner: log.owner })
  await store.write(closeLeftEpochs, { id })
}

function complain({ logger }: ManagerOptions, id: SandboxId, error: unknown): void {
  logger('error', `could not finish or undo a restore: ${reasonOf(error)}`, { sandbox: id })
}

/** Once the old instance is gone, the restore does not stop when the caller aborts. */
const NEVER = new AbortController().signal
