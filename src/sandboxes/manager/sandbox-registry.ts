/** Takes hold of sandboxes and lets go of them: which of them this process answers for now. */
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
import type { ActiveSandbox, SandboxHold } from './active-sandbox.ts'
import { AttachedStreams } from './attached.ts'
import { EventLog } from './events.ts'
import { closeFolder, sandboxFolder } from './folders.ts'
import { describeRefused, describeSurplus, destinationsOf, refuseAll } from './inbound.ts'
import { JobBook } from './job-book.ts'
import type { KeyedMutex } from './keyed-mutex.ts'
import type { ManagerOptions } from './options.ts'
import { unreachable } from './recovery-retries.ts'
import { BoundarySession } from './session.ts'

const LOOK_DEADLINE_MS = 10_000
/** After so many more have ended, those that ended long before are forgotten. */
const FORGET_EVERY = 512
/** Half of a start is waiting, for the engine and for the disk. */
const STARTS_PER_CORE = 2

/** A sandbox, or a place that waits to be one. */
export type Startable = Pick<SandboxRecord, 'id' | 'spec'> & { readonly late?: HotMountFolders | null }

export class SandboxRegistry implements SandboxHold {
  readonly #options: ManagerOptions
  readonly #turns: KeyedMutex
  readonly #waitingFor: (id: SandboxId) => string | undefined
  readonly #held = new Map<SandboxId, ActiveSandbox>()
  /** Every place that is started passes it. */
  readonly starts = new Semaphore(STARTS_PER_CORE * availableParallelism())
  /** What begins to use volumes, and what deletes one, is recorded one after the other. */
  readonly volumes = new Semaphore(1)

  /** `waitingFor` says why a sandbox could not be taken over yet. */
  constructor(options: ManagerOptions, turns: KeyedMutex, waitingFor: (id: SandboxId) => string | undefined) {
    this.#options = options
    this.#turns = turns
    this.#waitingFor = waitingFor
  }

  get size(): number {
    return this.#held.size
  }

  get(id: SandboxId): ActiveSandbox | undefined {
    return this.#held.get(id)
  }

  all(): readonly ActiveSandbox[] {
    return [...this.#held.values()]
  }

  async require(id: SandboxId): Promise<ActiveSandbox> {
    const held = this.#held.get(id)
    if (held !== undefined && !held.session.closing.aborted && !held.paused) return held
    const reason = this.#waitingFor(id)
    if (reason !== undefined) throw unreachable(id, reason)
    const record = await getSandbox(this.#options, id)
    if (record.state !== OPERABLE) throw notRunning(record)
    throw new CraikError('sandbox_stopped', `sandbox ${record.name} is not active in this supervisor`, {
      hint: `see why:  craik sandbox show ${record.name}`,
    })
  }

  specOf({ id, spec, late }: Startable): SandboxSpec {
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
      ...(late && { late }),
      ...(spec.container && { container: spec.container }),
    }
  }

  /** What the backend finds it again by: the recorded handle without what is the manager's own. */
  handleOf({ place }: Pick<SandboxRecord, 'place'>): InstanceHandle | undefined {
    if (place === null) return undefined
    const { sidecar: _, ...handle } = place.handle
    return handle
  }

  /** Listens for its sidecar. What was begun by an earlier process goes on as `jobs`. */
  async take(
    record: SandboxRecord,
    jobs: readonly (OpenJob & { readonly beganAtMs: number })[] = [],
  ): Promise<ActiveSandbox> {
    const held = await this.prepare(record)
    this.adopt(held, record)
    for (const job of jobs) {
      held.book.add({
        id: job.jobId,
        operation: job.operation,
        operator: job.operator,
        begun: job.begun,
        beganAtMs: job.beganAtMs,
        adopted: true,
        ...(job.endsWhenLeftMs !== undefined && { endsWhenLeftMs: job.endsWhenLeftMs }),
      })
    }
    return held
  }

  /** What was prepared is this sandbox from now on. */
  adopt(held: ActiveSandbox, record: SandboxRecord): void {
    held.isWarm = false
    held.record = record
    held.owned = record
    held.paused = record.state === 'paused'
    held.activity.activeAtMs = record.active_at_ms ?? this.#options.clock.nowMs()
    held.activity.savedAtMs = held.activity.activeAtMs
    this.#held.set(record.id, held)
  }

  /** The same before it is anybody's. */
  async prepare(record: ActiveSandbox['record']): Promise<ActiveSandbox> {
    const { id } = record
    const { clock, store, log, inbound } = this.#options
    const folder = sandboxFolder(this.#options.home.sandboxes, id)
    await closeFolder(this.#options.home.sandboxes, id)
    const epoch = newId('epoch', clock.nowMs())
    const events = await EventLog.open(folder, () => clock.nowMs())
    const written = async (work: Promise<unknown>) => {
      try {
        await work
      } catch (error) {
        this.#complain(held, error)
        throw error
      }
    }
    const refusals = refuseAll(
      async (refused) => {
        const { count } = refused
        const destinations = destinationsOf(refused)
        await written(store.write(refuseInbound, { id, epoch, count, destinations, owner: log.owner }))
        events.add('refused', { message: describeRefused(refused) }, 'rare')
      },
      (count) => written(store.write(noteInbound, { id, epoch, count })),
      async (count) => {
        await written(store.write(refuseSurplus, { id, epoch, count }))
        events.add('refused', { message: describeSurplus(count) }, 'rare')
      },
    )
    const handle = inbound?.({ id, epoch, record: () => held.owned }, refusals) ?? refusals.handle
    const session = await BoundarySession.open({
      id,
      epoch,
      events,
      line:
        record.spec.container?.line === 'relay'
          ? { kind: 'dial' }
          : { kind: 'socket', folder: join(folder, 'socket') },
      inbound: (stream, isSurplus) => (isSurplus ? refusals.surplus(stream) : handle(stream)),
      onConnected: (boundary) => this.#connected(held, boundary),
      onTick: (boundary) => this.#tick(held, boundary),
    })
    const book = new JobBook(
      this.#options,
      () => session,
      () => held.instance,
    )
    const instance = record.place?.handle.sidecar
    const held: ActiveSandbox = {
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
    return held
  }

  /** The place is known: where the host has to dial it, it begins to. */
  attach(held: ActiveSandbox, place: SandboxInstance): void {
    held.session.place = place
    if (place.line.kind === 'dial') held.session.keepDialling(place.line.dial)
  }

  /** From now on its end is noticed. */
  watch(held: ActiveSandbox, place: SandboxInstance): void {
    this.attach(held, place)
    void place.observe().then(
      (use) => held.book.remember(use.outOfMemoryKills),
      () => {},
    )
    const { id } = held.session
    void place.ended
      // In its turn: what is left of the place goes before another one may be started.
      .then((why) => this.#turns.take(id, () => this.#lost(held, why)))
      .catch((error) => this.#complain(held, error))
  }

  /** Lets go: the sandbox goes on, or is about to be ended by the caller. The counts are final and on record. */
  async letGo(held: ActiveSandbox): Promise<void> {
    const { id, epoch } = held.session
    await held.session.close()
    await held.refusals.close()
    await held.book.quiet()
    if (!held.isWarm)
      await this.#options.store
        .write(closeEpoch, { id, epoch, counts: held.session.counts() })
        .catch((error) => this.#complain(held, error))
    await held.session.events.close()
    if (this.#held.get(id) === held) this.#held.delete(id)
  }

  /** It ended although nobody told it to. */
  async #lost(held: ActiveSandbox, why: string): Promise<void> {
    const { session, book } = held
    if (session.closing.aborted || held.ending) return
    session.events.add('lost', { message: why })
    await session.close()
    await book.lose('lost')
    await this.letGo(held)
    await this.#options.store.write(changeSandbox, {
      id: session.id,
      state: 'lost',
      notice: why.slice(0, 500),
    })
    await session.place?.destroy()
  }

  async #connected(held: ActiveSandbox, boundary: Boundary): Promise<void> {
    held.instance ??= boundary.hello.instance
    if (held.instance !== boundary.hello.instance) {
      held.session.events.add('sidecar_changed', {
        message: 'another sidecar answered; the jobs of the previous one are lost',
      })
    }
    await this.#look(held, boundary)
  }

  async #tick(held: ActiveSandbox, boundary: Boundary | undefined): Promise<void> {
    if (held.isWarm) return
    const { id, epoch } = held.session
    try {
      const counts = held.session.counts()
      const key = savable(counts)
      if (held.saved !== key) {
        await this.#options.store.write(saveCounts, { id, epoch, counts })
        held.saved = key
      }
      if (held.book.ended - (held.forgotAt ?? 0) >= FORGET_EVERY) {
        held.forgotAt = held.book.ended
        await this.#options.store.write(forgetJobs, { id })
      }
    } catch (error) {
      this.#complain(held, error)
    }
    if (boundary !== undefined && !held.paused) await this.#look(held, boundary)
  }

  /** A sidecar that does not tell is asked again a second later. */
  async #look(held: ActiveSandbox, boundary: Boundary): Promise<void> {
    const { book, session } = held
    if (book.size === 0) return
    try {
      const until = AbortSignal.any([session.closing, AbortSignal.timeout(LOOK_DEADLINE_MS)])
      await book.look(boundary, until)
      await book.endLeft(boundary, until)
    } catch (error) {
      if (!session.closing.aborted) this.#complain(held, error)
    }
  }

  #complain({ session }: ActiveSandbox, error: unknown): void {
    const why = error instanceof Error ? error.message : String(error)
    this.#options.logger('warn', why, { sandbox: session.id })
  }
}

/** Bytes that only say that the line is alive are no reason to write; what they add up to is. */
function savable(counts: BoundaryCounts): string {
  const { bytesIn, bytesOut, ...opened } = counts
  return JSON.stringify([opened, Math.floor(bytesIn / 65_536), Math.floor(bytesOut / 65_536)])
}
