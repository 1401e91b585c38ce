/**
 * Manages the sandboxes of one home in one process. It first decides every call, then begins its receipt, and only then
 * acts.
 */
import { CraikError } from '../errors.ts'
import type { SandboxId } from '../lib/ids.ts'
import { capacityOf, UNBOUNDED } from './lifecycle/admission.ts'
import { getSandbox, listSandboxes } from './lifecycle/read-records.ts'
import { MAX_SANDBOXES, type SandboxRecord } from './lifecycle/sandbox-record.ts'
import { createSandbox } from './manager/create.ts'
import { EventLog } from './manager/event-log.ts'
import { forkSandbox } from './manager/fork.ts'
import { KeyedMutex } from './manager/keyed-mutex.ts'
import { createManagedFiles } from './manager/managed-files.ts'
import { createManagedJobs } from './manager/managed-jobs.ts'
import {
  createManagedSnapshots,
  deleteSnapshot,
  recoverSnapshots,
  snapshotView,
} from './manager/managed-snapshots.ts'
import { createManagedVolumes, recoverVolumes } from './manager/managed-volumes.ts'
import type { ManagerOptions } from './manager/manager-options.ts'
import { pauseSandbox } from './manager/pause.ts'
import { createManagedProcesses } from './manager/ports-and-processes.ts'
import { Reaper } from './manager/reaper.ts'
import { recoverAgain, recoverSandboxes } from './manager/recover.ts'
import { RecoveryRetries } from './manager/recovery-retries.ts'
import { deleteSandbox } from './manager/remove.ts'
import { restoreSandbox } from './manager/restore.ts'
import { resumeSandbox } from './manager/resume.ts'
import { sandboxFolder } from './manager/sandbox-folder.ts'
import { SandboxRegistry } from './manager/sandbox-registry.ts'
import { viewOf } from './manager/sandbox-view.ts'
import { stopSandbox } from './manager/stop.ts'
import { snapshotSandbox } from './manager/take-snapshot.ts'
import { WarmPool } from './manager/warm-pool.ts'
import type { ManagerCaller, SandboxEvent, SandboxManager, SandboxView } from './manager-types.ts'
import type { SnapshotRecord } from './snapshots/snapshot-record.ts'

export interface SupervisedSandboxes extends SandboxManager {
  /** Takes over what an earlier process left. Call it once, before anything else. */
  recover(): Promise<void>
  /** Disconnects from all sandboxes. They continue, and the next process finds them again. Idempotent. */
  close(): Promise<void>
  /** Ends all sandboxes and records nothing. For a removed home, whose sandboxes no other process can find again. */
  endAll(): Promise<void>
  /**
   * Whether the process must continue, because a sandbox is active, being created or removed, or waits for recovery.
   */
  readonly busy: boolean
  /** The number of warm instances. They are no reason to continue the process. */
  readonly warm: number
  /** Checks once for sandboxes and warm instances that have expired. Also runs every half minute by itself. */
  reap(): Promise<void>
}

export function createSandboxManager(options: ManagerOptions): SupervisedSandboxes {
  const { clock, home, logger } = options
  const turns = new KeyedMutex()
  const retries = new RecoveryRetries(
    (id) => withSandboxLock(id, () => recoverAgain(options, holder, id)),
    options.recoveryPauseMs,
  )
  const holder = new SandboxRegistry(options, turns, (id) => retries.reasonFor(id))
  const reaper = new Reaper(options, holder, {
    stop: (caller, id, reason) =>
      withSandboxLock(id, () => stopSandbox(options, holder, caller, id, { reason })),
    delete: (caller, id) =>
      withSandboxLock(id, () => deleteSandbox(options, holder, retries, caller, id, 'retention')),
  })
  const working = new Set<Promise<unknown>>()
  const pool = new WarmPool(options, holder, () => working.size > 0)
  const controller = new AbortController()
  let closing: Promise<void> | undefined

  /** Closing waits for this work, because the next process would have to undo an unfinished part. */
  function trackWork<T>(work: Promise<T>): Promise<T> {
    working.add(work)
    const over = () => working.delete(work)
    work.then(over, over)
    return work
  }

  function withSandboxLock<T>(id: SandboxId, work: () => Promise<T>): Promise<T> {
    return trackWork(turns.take(id, work))
  }

  /** A sandbox that is not recovered yet is neither stopped nor started. */
  async function transitionView(id: SandboxId, work: () => Promise<SandboxRecord>): Promise<SandboxView> {
    return viewRecord(
      await withSandboxLock(id, async () => {
        retries.require(id)
        return work()
      }),
    )
  }

  function snapshotInTurn(
    caller: ManagerCaller,
    id: SandboxId,
    request: Parameters<typeof snapshotSandbox>[4],
  ): Promise<SnapshotRecord> {
    return withSandboxLock(id, async () => {
      retries.require(id)
      return snapshotSandbox(options, holder, caller, id, request)
    })
  }

  /** Long work is given up when the process shuts down. */
  function untilClosing(caller: ManagerCaller): ManagerCaller {
    return { ...caller, signal: AbortSignal.any([caller.signal, controller.signal]) }
  }

  const viewRecord = (record: SandboxRecord) =>
    viewOf(record, holder.get(record.id), retries.reasonFor(record.id))

  async function* events(id: SandboxId, follow: boolean, until: AbortSignal): AsyncGenerator<SandboxEvent> {
    const active = holder.get(id)
    if (active !== undefined) return yield* active.session.events.read(follow, until)
    const record = await getSandbox(options, id)
    const log = await EventLog.open(sandboxFolder(home.sandboxes, record.id), () => clock.nowMs())
    yield* log.read(false, until)
  }

  return {
    get busy() {
      return holder.size > 0 || working.size > 0 || retries.size > 0
    },
    get warm() {
      return pool.size
    },
    async create(caller, request) {
      return viewRecord(await trackWork(createSandbox(options, holder, retries, pool, caller, request)))
    },
    async list() {
      return (await listSandboxes(options)).map((listed) => {
        if (listed.record !== undefined) return viewRecord(listed.record)
        const { id, name, problem } = listed
        logger('error', problem, { sandbox: id })
        return { id, name, state: 'damaged', notice: problem }
      })
    },
    async capacity() {
      const rows = await options.store.read((tables) => tables.sandboxes.list({}, 2 * MAX_SANDBOXES))
      return capacityOf(rows, (await options.admission?.()) ?? UNBOUNDED)
    },
    get: async (idOrName) => viewRecord(await getSandbox(options, idOrName)),
    stop: (caller, id, request = {}) =>
      transitionView(id, () => stopSandbox(options, holder, caller, id, request)),
    resume: (caller, id) => transitionView(id, () => resumeSandbox(options, holder, retries, caller, id)),
    pause: (caller, id) => transitionView(id, () => pauseSandbox(options, holder, caller, id)),
    snapshot: async (caller, id, request = {}) =>
      snapshotView(await snapshotInTurn(untilClosing(caller), id, request)),
    restore: (caller, id, snapshot) =>
      transitionView(id, () => restoreSandbox(options, holder, retries, untilClosing(caller), id, snapshot)),
    async fork(caller, id, request = {}) {
      const forked = forkSandbox(options, untilClosing(caller), id, request, {
        snapshot: (by) => snapshotInTurn(by, id, { createdBy: 'auto' }),
        create: (by, request) => createSandbox(options, holder, retries, pool, by, request),
        drop: (by, snapshot) => deleteSnapshot(options, by, snapshot),
      })
      return viewRecord(await trackWork(forked))
    },
    delete: (caller, id) => withSandboxLock(id, () => deleteSandbox(options, holder, retries, caller, id)),
    offerKeys: async (keys, until) => options.logins?.offer(keys, until),
    events,
    jobs: createManagedJobs(options, holder),
    files: createManagedFiles(options, holder),
    inside: createManagedProcesses(options, holder),
    snapshots: createManagedSnapshots(options, trackWork, untilClosing),
    volumes: createManagedVolumes(options, holder, trackWork),
    async recover() {
      await trackWork(recoverSnapshots(options))
      await trackWork(recoverVolumes(options))
      await trackWork(recoverSandboxes(options, holder, retries))
      await pool.recover()
      reaper.start()
    },
    async reap() {
      await reaper.tick()
      await pool.tick()
    },
    async endAll() {
      retries.close()
      const all = holder.all()
      for (const held of all) held.ending = true
      await Promise.allSettled(all.map((held) => held.session.instance?.destroy()))
    },
    close() {
      closing ??= (async () => {
        controller.abort(new CraikError('interrupted', 'the supervisor is shutting down'))
        retries.close()
        await reaper.close()
        await Promise.allSettled([...working])
        await pool.close()
        await Promise.all(holder.all().map((held) => holder.release(held)))
        await options.closing?.()
      })()
      return closing
    },
  }
}
