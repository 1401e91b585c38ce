/** The registry of active sandboxes: those that this process manages now. */
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { newId, type SandboxId } from '../../lib/ids.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import type { HotMountFolders, InstanceHandle, SandboxInstance, SandboxSpec } from '../backend.ts'
import type { Boundary, BoundaryCounts } from '../boundary/boundary.ts'
import { getSandbox } from '../lifecycle/read-records.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import {
  changeSandbox,
  closeEpoch,
  forgetJobs,
  noteInbound,
  type OpenJob,
  refuseInbound,
  refuseSurplus,
  saveCounts,
} from '../lifecycle/tokens.ts'
import { notRunning, OPERABLE } from '../lifecycle/transitions.ts'
import type { ActiveSandbox, SandboxAccess } from './active-sandbox.ts'
import { AttachedStreams } from './attached-streams.ts'
import { BoundarySession } from './boundary-session.ts'
import { EventLog } from './event-log.ts'
import { JobBook } from './job-book.ts'
import type { KeyedMutex } from './keyed-mutex.ts'
import type { ManagerOptions } from './manager-options.ts'
import { unreachable } from './recovery-retries.ts'
import { describeRefused, describeSurplus, destinationsOf, refuseAll } from './refuse-inbound.ts'
import { closeFolder, sandboxFolder } from './sandbox-folder.ts'

const LOOK_DEADLINE_MS = 10_000
/** After this many more jobs have ended, the records of old ended jobs are removed. */
const FORGET_EVERY = 512
/** A start spends half of its time waiting for the engine and the disk. */
const STARTS_PER_CORE = 2

/** A sandbox, or a warm instance that can become one. */
export type Startable = Pick<SandboxRecord, 'id' | 'spec'> & { readonly late?: HotMountFolders | null }

export class SandboxRegistry implements SandboxAccess {
  readonly #options: ManagerOptions
  readonly #turns: KeyedMutex
  readonly #waitingFor: (id: SandboxId) => string | undefined
  readonly #active = new Map<SandboxId, ActiveSandbox>()
  /** Every start of an instance passes this semaphore. */
  readonly starts = new Semaphore(STARTS_PER_CORE * availableParallelism())
  /** Serializes the operations that begin to use volumes, and those that delete one. */
  readonly volumes = new Semaphore(1)

  /** `waitingFor` returns why a sandbox could not be taken over yet. */
  constructor(options: ManagerOptions, turns: KeyedMutex, waitingFor: (id: SandboxId) => string | undefined) {
    this.#options = options
    this.#turns = turns
    this.#waitingFor = waitingFor
  }

  get size(): number {
    return this.#active.size
  }

  get(id: SandboxId): ActiveSandbox | undefined {
    return this.#active.get(id)
  }

  all(): readonly ActiveSandbox[] {
    return [...this.#active.values()]
  }

  async require(id: SandboxId): Promise<ActiveSandbox> {
    const active = this.#active.get(id)
    if (active !== undefined && !active.session.closing.aborted && !active.paused) return active
    const reason = this.#waitingFor(id)
    if (reason !== undefined) throw unreachable(id, reason)
    const record = await getSandbox(this.#options, id)
    if (record.state !== OPERABLE) throw notRunning(record)
    throw new CraikError('sandbox_stopped', `sandbox ${record.name} does not run under this supervisor`, {
      hint: `see why:  craik sandbox show ${record.name}`,
    })
  }

  specOf({ id, spec, late: hotMounts }: Startable): SandboxSpec {
    return {
      id,
      isolation: spec.isolation,
      folder: sandboxFolder(this.#options.home.sandboxes, id),
      workspace: spec.workspace,
      mounts: spec.mounts,
      volumes: spec.volumes.map((one) => ({ ...one, folder: join(this.#options.home.volumes, one.name) })),
      limits: spec.limits as SandboxSpec['limits'],
      harnesses: spec.harnesses,
      hostUser: spec.hostUser ?? undefined,
      ...(hotMounts && { late: hotMounts }),
      ...(spec.container && { container: spec.container }),
    }
  }

  /** Returns the handle by which the backend finds the instance again, without the manager's own field. */
  handleOf({ place: instance }: Pick<SandboxRecord, 'place'>): InstanceHandle | undefined {
    if (instance === null) return undefined
    const { sidecar: _, ...handle } = instance.handle
    return handle
  }

  /** Takes over a sandbox and listens for its sidecar. `jobs` are the open jobs of an earlier process. */
  async take(
    record: SandboxRecord,
    jobs: readonly (OpenJob & { readonly beganAtMs: number })[] = [],
  ): Promise<ActiveSandbox> {
    const active = await this.prepare(record)
    this.adopt(active, record)
    for (const job of jobs) {
      active.book.add({
        id: job.jobId,
        operation: job.operation,
        operator: job.operator,
        begun: job.begun,
        beganAtMs: job.beganAtMs,
        adopted: true,
        ...(job.endsWhenLeftMs !== undefined && { endsWhenLeftMs: job.endsWhenLeftMs }),
      })
    }
    return active
  }

  /** Turns what was prepared into this sandbox. */
  adopt(active: ActiveSandbox, record: SandboxRecord): void {
    active.isWarm = false
    active.record = record
    active.owned = record
    active.paused = record.state === 'paused'
    active.activity.activeAtMs = record.active_at_ms ?? this.#options.clock.nowMs()
    active.activity.savedAtMs = active.activity.activeAtMs
    this.#active.set(record.id, active)
  }

  /** Prepares an active sandbox that has no owner yet, and listens for its sidecar. */
  async prepare(record: ActiveSandbox['record']): Promise<ActiveSandbox> {
    const { id } = record
    const { clock, store, log, inbound } = this.#options
    const folder = sandboxFolder(this.#options.home.sandboxes, id)
    await closeFolder(this.#options.home.sandboxes, id)
    const epoch = newId('epoch', clock.nowMs())
    const events = await EventLog.open(folder, () => clock.nowMs())
    const reportFailure = async (work: Promise<unknown>) => {
      try {
        await work
      } catch (error) {
        this.#complain(active, error)
        throw error
      }
    }
    const refusals = refuseAll(
      async (refused) => {
        const { count } = refused
        const destinations = destinationsOf(refused)
        await reportFailure(store.write(refuseInbound, { id, epoch, count, destinations, owner: log.owner }))
        events.add('refused', { message: describeRefused(refused) }, 'rare')
      },
      (count) => reportFailure(store.write(noteInbound, { id, epoch, count })),
      async (count) => {
        await reportFailure(store.write(refuseSurplus, { id, epoch, count }))
        events.add('refused', { message: describeSurplus(count) }, 'rare')
      },
    )
    const handle = inbound?.({ id, epoch, record: () => active.owned }, refusals) ?? refusals.handle
    const session = await BoundarySession.open({
      id,
      epoch,
      events,
      line:
        record.spec.container?.line === 'relay'
          ? { kind: 'dial' }
          : { kind: 'socket', folder: join(folder, 'socket') },
      inbound: (stream, isSurplus) => (isSurplus ? refusals.surplus(stream) : handle(stream)),
      onConnected: (boundary) => this.#onConnect(active, boundary),
      onTick: (boundary) => this.#tick(active, boundary),
    })
    const book = new JobBook(
      this.#options,
      () => session,
      () => active.instance,
    )
    const instance = record.place?.handle.sidecar
    const active: ActiveSandbox = {
      record,
      session,
      book,
      refusals,
      attached: new AttachedStreams(this.#options, id),
      instance: typeof instance === 'string' ? instance : undefined,
      isWarm: true,
      paused: false,
      ending: false,
      activity: { activeAtMs: clock.nowMs(), savedAtMs: clock.nowMs(), uses: 0, cpuMs: undefined },
    }
    return active
  }

  /** Sets the instance. If the host has to dial it, this starts to dial. */
  attach(active: ActiveSandbox, instance: SandboxInstance): void {
    active.session.instance = instance
    if (instance.line.kind === 'dial') active.session.keepDialling(instance.line.dial)
  }

  /** From now on, the registry notices when the instance ends. */
  watch(active: ActiveSandbox, instance: SandboxInstance): void {
    this.attach(active, instance)
    void instance.observe().then(
      (use) => active.book.setInitialKillCount(use.outOfMemoryKills),
      () => {},
    )
    const { id } = active.session
    void instance.ended
      // This runs in the sandbox's mutex: what is left of the instance is removed before another one can start.
      .then((why) => this.#turns.take(id, () => this.#onLost(active, why)))
      .catch((error) => this.#complain(active, error))
  }

  /**
   * Releases a sandbox that continues to run, or that the caller is about to end. Its counts are final and recorded.
   */
  async release(active: ActiveSandbox): Promise<void> {
    const { id, epoch } = active.session
    await active.session.close()
    await active.refusals.close()
    await active.book.waitForEnds()
    if (!active.isWarm)
      await this.#options.store
        .write(closeEpoch, { id, epoch, counts: active.session.counts() })
        .catch((error) => this.#complain(active, error))
    await active.session.events.close()
    if (this.#active.get(id) === active) this.#active.delete(id)
  }

  /** Handles an instance that ended by itself. */
  async #onLost(active: ActiveSandbox, why: string): Promise<void> {
    const { session, book } = active
    if (session.closing.aborted || active.ending) return
    session.events.add('lost', { message: why })
    await session.close()
    await book.endAll('lost')
    await this.release(active)
    await this.#options.store.write(changeSandbox, {
      id: session.id,
      state: 'lost',
      notice: why.slice(0, 500),
    })
    await session.instance?.destroy()
  }

  async #onConnect(active: ActiveSandbox, boundary: Boundary): Promise<void> {
    active.instance ??= boundary.hello.instance
    if (active.instance !== boundary.hello.instance) {
      active.session.events.add('sidecar_changed', {
        message: 'another sidecar answered; the jobs of the previous one are lost',
      })
    }
    await this.#look(active, boundary)
  }

  async #tick(active: ActiveSandbox, boundary: Boundary | undefined): Promise<void> {
    if (active.isWarm) return
    const { id, epoch } = active.session
    try {
      const counts = active.session.counts()
      const key = savable(counts)
      if (active.saved !== key) {
        await this.#options.store.write(saveCounts, { id, epoch, counts })
        active.saved = key
      }
      if (active.book.ended - (active.forgotAt ?? 0) >= FORGET_EVERY) {
        active.forgotAt = active.book.ended
        await this.#options.store.write(forgetJobs, { id })
      }
    } catch (error) {
      this.#complain(active, error)
    }
    if (boundary !== undefined && !active.paused) await this.#look(active, boundary)
  }

  /** Checks the jobs. A sidecar that does not answer is checked again a second later. */
  async #look(active: ActiveSandbox, boundary: Boundary): Promise<void> {
    const { book, session } = active
    if (book.size === 0) return
    try {
      const until = AbortSignal.any([session.closing, AbortSignal.timeout(LOOK_DEADLINE_MS)])
      await book.endFinished(boundary, until)
      await book.endAbandoned(boundary, until)
    } catch (error) {
      if (!session.closing.aborted) this.#complain(active, error)
    }
  }

  #complain({ session }: ActiveSandbox, error: unknown): void {
    const why = error instanceof Error ? error.message : String(error)
    this.#options.logger('warn', why, { sandbox: session.id })
  }
}

/**
 * Returns a key that changes when the counts should be saved. Bytes that only keep the connection alive do not change
 * it until they add up.
 */
function savable(counts: BoundaryCounts): string {
  const { bytesIn, bytesOut, ...opened } = counts
  return JSON.stringify([opened, Math.floor(bytesIn / 65_536), Math.floor(bytesOut / 65_536)])
}
