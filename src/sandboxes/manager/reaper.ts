/**
 * Checks the sandboxes regularly. It stops those whose time is over, and removes those whose retention time has passed.
 */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { listSandboxes } from '../lifecycle/read-records.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import { changeSandbox } from '../lifecycle/tokens.ts'
import { OPERABLE, STATES } from '../lifecycle/transitions.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { ManagerOptions } from './manager-options.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { reasonOf } from './transition.ts'

const TICK_MS = 30_000
/** The activity time is written no more often, because each write costs a transaction. */
const SAVE_EVERY_MS = 60_000
/** The share of one core over the time between two checks. A sandbox that only waits stays below it. */
const BUSY_SHARE = 0.05
/** The first pause before a denied or failed action is tried again. */
const FIRST_PAUSE_MS = 60_000
const MAX_PAUSE_MS = 3_600_000

type StopReason = 'idle' | 'lifetime'

/** The reaper acts in the name of the sandbox's operator and under their grants, so policy may deny it. */
export interface ReaperActs {
  stop(caller: ManagerCaller, id: SandboxId, reason: StopReason): Promise<unknown>
  delete(caller: ManagerCaller, id: SandboxId): Promise<unknown>
}

export class Reaper {
  readonly #options: ManagerOptions
  readonly #registry: SandboxRegistry
  readonly #acts: ReaperActs
  readonly #closing = new AbortController()
  readonly #putOff = new Map<SandboxId, { readonly untilMs: number; readonly pauseMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #ticking: Promise<void> | undefined
  #lookedAtMs: number | undefined

  constructor(options: ManagerOptions, registry: SandboxRegistry, acts: ReaperActs) {
    this.#options = options
    this.#registry = registry
    this.#acts = acts
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.tick(), this.#options.reaperTickMs ?? TICK_MS).unref()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#closing.abort(new CraikError('interrupted', 'the manager is closing'))
    await this.#ticking
  }

  /** Runs one check at a time. */
  tick(): Promise<void> {
    this.#ticking ??= this.#look()
      .catch((error) => this.#options.logger('warn', `could not check the sandboxes: ${reasonOf(error)}`))
      .finally(() => {
        this.#ticking = undefined
      })
    return this.#ticking
  }

  async #look(): Promise<void> {
    const nowMs = this.#options.clock.nowMs()
    const sinceMs = nowMs - (this.#lookedAtMs ?? nowMs)
    this.#lookedAtMs = nowMs
    for (const { record } of await listSandboxes(this.#options)) {
      if (this.#closing.signal.aborted) return
      if (record !== undefined) await this.#lookAt(record, nowMs, sinceMs)
    }
  }

  async #lookAt(record: SandboxRecord, nowMs: number, sinceMs: number): Promise<void> {
    const { id, ends } = record
    const active = this.#registry.get(id)
    if (active !== undefined) await this.#notice(record, active, nowMs, sinceMs)
    const putOff = this.#putOff.get(id)
    if (putOff !== undefined && nowMs < putOff.untilMs) return
    const caller = { operator: record.operator, signal: this.#closing.signal }
    const isRetained = record.pending === null && !STATES[record.state].usesCapacity
    const keptSinceMs = record.stopped_at_ms
    try {
      if (isRetained && ends.keep_ms !== null && keptSinceMs !== null && nowMs - keptSinceMs >= ends.keep_ms)
        await this.#acts.delete(caller, id)
      const reason = active && stopReason(record, active, nowMs)
      if (reason !== undefined) await this.#acts.stop(caller, id, reason)
      this.#putOff.delete(id)
    } catch (error) {
      const pauseMs = Math.min(MAX_PAUSE_MS, putOff === undefined ? FIRST_PAUSE_MS : 2 * putOff.pauseMs)
      this.#putOff.set(id, { untilMs: nowMs + pauseMs, pauseMs })
      this.#options.logger('warn', `could not stop or delete it after its timeout: ${reasonOf(error)}`, {
        sandbox: id,
      })
    }
  }

  /** Notices activity: a running job, an open stream, a call since the last check, or processor time without a job. */
  async #notice(record: SandboxRecord, active: ActiveSandbox, nowMs: number, sinceMs: number): Promise<void> {
    const { session, book, activity } = active
    if (active.paused || active.ending) return
    const { cpuMs } = (await session.instance?.observe().catch(() => undefined)) ?? {}
    const worked = cpuMs !== undefined && activity.cpuMs !== undefined ? cpuMs - activity.cpuMs : 0
    const isActive =
      book.running > 0 ||
      session.streams > 0 ||
      session.uses !== activity.uses ||
      (sinceMs > 0 && worked >= sinceMs * BUSY_SHARE)
    activity.uses = session.uses
    activity.cpuMs = cpuMs
    if (!isActive) return
    activity.activeAtMs = nowMs
    if (nowMs - activity.savedAtMs < SAVE_EVERY_MS) return
    await this.#options.store.write(changeSandbox, { id: record.id, activeAtMs: nowMs })
    activity.savedAtMs = nowMs
  }
}

/** A paused sandbox is not idle, because its user wants to continue it where it is. Its lifetime still passes. */
function stopReason(record: SandboxRecord, active: ActiveSandbox, nowMs: number): StopReason | undefined {
  const { ends, started_at_ms, state, pending } = record
  if (pending !== null || active.ending) return undefined
  const isPast = (sinceMs: number | null, spanMs: number | null) =>
    sinceMs !== null && spanMs !== null && nowMs - sinceMs >= spanMs
  if (isPast(started_at_ms, ends.lifetime_ms)) return 'lifetime'
  return state === OPERABLE && isPast(active.activity.activeAtMs, ends.idle_ms) ? 'idle' : undefined
}
