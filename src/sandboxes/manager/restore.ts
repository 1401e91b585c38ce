/** Takes a sandbox back to a snapshot: the new disk is made beside the old one, which goes only when the new one works. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { getSandbox } from '../lifecycle/read-records.ts'
import type { RecordedInstance, SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { closeLeftEpochs, closeOrphans } from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import { getSnapshot } from '../snapshots/read-snapshots.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import { backendCalled, type ManagerOptions } from './manager-options.ts'
import { observedMeasure } from './operation.ts'
import { sendLogins } from './put-logins.ts'
import type { RecoveryRetries } from './recovery-retries.ts'
import { requireSandboxFolder } from './sandbox-folder.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { clearInstance, type Started, startInstance, undoInstance } from './start-instance.ts'
import { GRACE_MS, windDown } from './stop.ts'
import { disksOf } from './take-snapshot.ts'
import { beginTransitionOf, end, reasonOf, transitionError } from './transition.ts'
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
    // Only who may do it is told which snapshots there are.
    if (!('id' in found)) throw found.error
    requireFit(found, {
      backend: record.backend,
      workspace: record.spec.workspace.mode,
      image: record.spec.container
        ? { id: record.spec.container.image, name: record.spec.container.imageName }
        : undefined,
    })
  } catch (error) {
    await end(options, registry, { id, status: 'failed' })
    throw error
  }
  return exchange(options, registry, retries, caller, record, found)
}

/** What is thrown after the old place is gone has put the old disk back, and started it again if it ran. */
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
    // While it goes on: nothing is stopped for a snapshot that cannot be used.
    const leftOut = await fillDisk(options, caller, snapshot, spec, record.backend)
    caller.signal.throwIfAborted()
    isCleared = true
    await windDown(options, registry, id, GRACE_MS)
    await clearInstance(options, registry, record)
    await closeLeft(options, id)
    await disks.exchange(spec)
    const instance = ran ? await startInstance(options, registry, record, made, NEVER) : undefined
    const restored = await end(options, registry, {
      id,
      status: 'passed',
      ...(instance && { place: instance }),
      measures: [observedMeasure('duration_ms', options.clock.nowMs() - beganAtMs)],
      notice: `restored from snapshot ${snapshot.name}${leftOut === undefined ? '' : `, ${leftOut}`}`,
    })
    watch(registry, made, 'restored')
    if (made.held !== undefined) await sendLogins(options, made.held, record, caller)
    await disks.settle(spec).catch((error) => complain(options, id, error))
    return restored
  } catch (error) {
    try {
      // What is on record as done is not undone, also when nobody heard that it was written.
      if ((await getSandbox(options, id)).pending === null) throw error
      await undo(options, registry, record, made, isCleared)
    } catch (left) {
      // The record stays as `restoring`: what is left is undone as soon as that works.
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
    await undoInstance(registry, spec, backendCalled(options.backends, record.backend), made)
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
      await undoInstance(registry, spec, backendCalled(options.backends, record.backend), again)
    }
  }
  await end(options, registry, { id, status: 'failed', ...(instance && { place: instance }) })
  if (instance !== undefined) watch(registry, again, 'resumed')
}

/** What an earlier process left in the middle: the disk is the one before, and what ran before goes on if it still does. */
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

function watch(registry: SandboxRegistry, { held: active, instance }: Started, event: string): void {
  if (active === undefined || instance === undefined) return
  active.session.events.add(event)
  registry.watch(active, instance)
}

/** Of the place that was: jobs that nobody knew of yet, and what its boundary counted. */
async function closeLeft({ store, log }: ManagerOptions, id: SandboxId): Promise<void> {
  await store.write(closeOrphans, { id, keep: [], owner: log.owner })
  await store.write(closeLeftEpochs, { id })
}

function complain({ logger }: ManagerOptions, id: SandboxId, error: unknown): void {
  logger('error', `could not finish or undo a restore: ${reasonOf(error)}`, { sandbox: id })
}

/** Once the old place is gone it is not given up when the caller leaves. */
const NEVER = new AbortController().signal
