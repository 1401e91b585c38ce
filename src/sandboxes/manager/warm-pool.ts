/**
 * Starts instances in advance, so that a sandbox need not wait for one. They have no owner, do not keep the process
 * alive, and end with it.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { CraikError } from '../../errors.ts'
import { newId, type SandboxId } from '../../lib/ids.ts'
import type { ContainerSpec } from '../backend.ts'
import { isOverfull } from '../lifecycle/admission.ts'
import { MAX_SANDBOXES, sandboxId } from '../lifecycle/sandbox-record.ts'
import { isFor, isSame, type Shape } from '../pool/instance-shape.ts'
import { type CreatedSandbox, planWarmInstances } from '../pool/warm-demand.ts'
import { MAX_WARM_ROWS } from '../pool/warm-record.ts'
import { type ManagerOptions, requireBackend } from './manager-options.ts'
import { RecoveryRetries } from './recovery-retries.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import type { Started } from './start-instance.ts'
import { reasonOf } from './transition.ts'
import { endWarm, startWarm, type WarmInstance } from './warm-instance.ts'

const TICK_MS = 30_000
/** A sandbox that was just created is used at once. Its first command goes before the next instance. */
const QUIET_MS = 500
/** The first pause before a failed start is tried again. */
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 300_000

export class WarmPool {
  readonly #options: ManagerOptions
  readonly #registry: SandboxRegistry
  readonly #isBusy: () => boolean
  readonly #most: number
  readonly #instances = new Map<SandboxId, WarmInstance>()
  readonly #closing = new AbortController()
  readonly #endings = new Set<Promise<void>>()
  readonly #retries: RecoveryRetries
  /** The instances of an earlier process. */
  #left: SandboxId[] = []
  #made: readonly CreatedSandbox[] = []
  #working: Promise<void> | undefined
  #isRequested = false
  #timer: NodeJS.Timeout | undefined
  #putOff = { untilMs: 0, pauseMs: 0 }

  /** `isBusy` returns whether the manager works on a request, which goes first. */
  constructor(options: ManagerOptions, registry: SandboxRegistry, isBusy: () => boolean) {
    this.#options = options
    this.#registry = registry
    this.#isBusy = isBusy
    this.#most = options.warmPlaces ?? 0
    this.#retries = new RecoveryRetries((id) => this.#end(id, {}), options.recoveryPauseMs)
  }

  /** The number of instances that are ready now. */
  get size(): number {
    return this.#instances.size
  }

  /** Ends the instances of an earlier process in the background. A process offers only its own. */
  async recover(): Promise<void> {
    const rows = await this.#options.store.read((tables) => tables.warmInstances.list({}, MAX_WARM_ROWS))
    this.#left = rows.map(({ id }) => id as SandboxId).filter((id) => sandboxId.safeParse(id).success)
    this.#timer ??= setInterval(() => void this.tick(), TICK_MS).unref()
    if (this.#left.length > 0) this.#wake()
  }

  /**
   * Takes the oldest instance that fits the request. It then belongs to the caller, who adopts it, gives it back or
   * releases it.
   */
  take(request: Shape): WarmInstance | undefined {
    for (const instance of this.#instances.values()) {
      const { record, held: active, shape } = instance
      if (!active.session.isConnected || !isFor(request, shape, record.spec.container)) continue
      this.#instances.delete(record.id)
      return instance
    }
    return undefined
  }

  giveBack(instance: WarmInstance): void {
    this.#instances.set(instance.record.id, instance)
    this.#wake()
  }

  /** Records that a sandbox of this shape was created from `container`, because more like it may be wanted. */
  note(shape: Shape, container: ContainerSpec | null): void {
    const backend = requireBackend(this.#options.backends, shape.backend)
    if (this.#most === 0 || backend.pooled !== true) return
    if (shape.late !== null && backend.supportsHotMounts?.(container) !== true) return
    const made = { shape, atMs: this.#options.clock.nowMs() }
    this.#made = [...this.#made, made].slice(-this.#most)
    this.#outdate(shape, container)
    this.#wake()
  }

  /** Ends all instances; the next process finds any that are left. Can be called repeatedly. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#closing.abort(new CraikError('interrupted', 'the manager is closing'))
    this.#retries.close()
    await this.#working
    for (const instance of this.#instances.values()) void this.#giveUp(instance)
    await Promise.all(this.#endings)
  }

  /** Gives up the instances that are no longer wanted. It also runs regularly by itself. */
  async tick(): Promise<void> {
    await this.#look()
    this.#wake()
    await this.#working
  }

  /** Gives up instances that differ from what would be started now, for example because of a newer image. */
  async #look(): Promise<void> {
    const shapes = [...this.#instances.values()].map(({ shape }) => shape)
    const distinct = shapes.filter((shape, at) => shapes.findIndex((other) => isSame(shape, other)) === at)
    for (const shape of distinct) {
      try {
        this.#outdate(shape, (await this.#plan(shape)) ?? null)
      } catch {
        // An engine that does not answer does not report what it would start.
      }
    }
  }

  #outdate(shape: Shape, container: ContainerSpec | null): void {
    for (const instance of this.#instances.values())
      if (isSame(instance.shape, shape) && !isDeepStrictEqual(instance.record.spec.container, container))
        void this.#giveUp(instance)
  }

  #plan({ backend, container }: Shape): Promise<ContainerSpec | undefined> {
    const harnesses = this.#options.harnesses?.ids([]) ?? []
    const asking = { ...container, ...(harnesses.length > 0 && { harnesses }) }
    return requireBackend(this.#options.backends, backend).plan?.(asking) ?? Promise.resolve(undefined)
  }

  /** Does one thing after the other, until there is nothing to do. */
  #wake(): void {
    this.#isRequested = true
    this.#working ??= this.#work()
      .catch((error) => this.#complain(error))
      .finally(() => {
        this.#working = undefined
        if (this.#isRequested && !this.#closing.signal.aborted) this.#wake()
      })
  }

  async #work(): Promise<void> {
    while (this.#isRequested && !this.#closing.signal.aborted) {
      this.#isRequested = false
      for (const id of this.#left.splice(0)) await this.#remove(id, {})
      for (const instance of await this.#spare()) await this.#giveUp(instance)
      while (await this.#fillOne());
    }
  }

  /**
   * Returns the instances beyond those that are wanted, or beyond the capacity that the sandboxes leave; the oldest
   * first.
   */
  async #spare(): Promise<readonly WarmInstance[]> {
    if (this.#instances.size === 0) return []
    const wanted = [...this.#planShapes()]
    const unwanted = [...this.#instances.values()].filter(({ shape }) => !removeFirst(wanted, shape))
    if (unwanted.length > 0) return unwanted
    const { admission } = this.#options
    if (admission === undefined || !isOverfull(await this.#rows(), await admission())) return []
    return [...this.#instances.values()].slice(0, 1)
  }

  async #rows() {
    return this.#options.store.read(async ({ sandboxes, warmInstances: warmPlaces }) => [
      ...(await sandboxes.list({}, 2 * MAX_SANDBOXES)),
      ...(await warmPlaces.list({}, MAX_WARM_ROWS)),
    ])
  }

  #planShapes(): readonly Shape[] {
    return planWarmInstances(this.#made, this.#options.clock.nowMs(), this.#most)
  }

  #lacking(): Shape | undefined {
    const waiting = [...this.#instances.values()].map(({ shape }) => shape)
    return this.#planShapes().find((shape) => !removeFirst(waiting, shape))
  }

  /** Starts one instance while no request is in progress. Returns whether it succeeded. */
  async #fillOne(): Promise<boolean> {
    if (this.#lacking() === undefined || this.#options.clock.nowMs() < this.#putOff.untilMs) return false
    const { signal } = this.#closing
    do await sleep(this.#options.poolQuietMs ?? QUIET_MS, undefined, { signal }).catch(() => {})
    while (this.#isBusy() && !signal.aborted)
    const shape = this.#lacking()
    if (signal.aborted || shape === undefined) return false
    const id = newId<SandboxId>('sbx', this.#options.clock.nowMs())
    const made: Started = {}
    try {
      const container = await this.#plan(shape)
      const instance = await startWarm(this.#options, this.#registry, id, shape, container, made, signal)
      this.#instances.set(id, instance)
      void made.instance!.ended.then(() => this.#onEnd(instance))
      this.#putOff = { untilMs: 0, pauseMs: 0 }
      this.#outdate(shape, container ?? null)
      return true
    } catch (error) {
      await this.#remove(id, made)
      // Perhaps only instances with hot mounts fail. They are tried again after the next sandbox that could have used
      // one.
      if (shape.late !== null) this.#made = this.#made.filter((one) => one.shape.late === null)
      this.#onFailure(error)
      return false
    }
  }

  #onFailure(error: unknown): void {
    if (this.#closing.signal.aborted) return
    const pauseMs = Math.min(MAX_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * this.#putOff.pauseMs))
    this.#putOff = { untilMs: this.#options.clock.nowMs() + pauseMs, pauseMs }
    // A lack of capacity is the purpose of the limit, so it is not logged.
    if (!(error instanceof CraikError && error.code === 'limit_reached')) this.#complain(error)
  }

  #onEnd(instance: WarmInstance): void {
    if (this.#instances.get(instance.record.id) === instance)
      void this.#giveUp(instance).then(() => this.#wake())
  }

  #giveUp(instance: WarmInstance): Promise<void> {
    const { record, held: active } = instance
    // From now on, no request gets this instance.
    if (this.#instances.get(record.id) === instance) this.#instances.delete(record.id)
    const running = active.session.instance
    return this.#remove(record.id, { active: active, ...(running && { instance: running }) })
  }

  /** Retries until it works. */
  #remove(id: SandboxId, made: Started): Promise<void> {
    const ending = this.#end(id, made).catch((error) => {
      this.#complain(error, id)
      this.#retries.later(id, error)
    })
    this.#endings.add(ending)
    return ending.finally(() => this.#endings.delete(ending))
  }

  async #end(id: SandboxId, made: Started): Promise<void> {
    if (await endWarm(this.#options, this.#registry, id, made)) return
    throw new CraikError('conflict', `the warm instance ${id} is in use by another process`)
  }

  #complain(error: unknown, id?: SandboxId): void {
    this.#options.logger('warn', `warm pool: ${reasonOf(error)}`, { sandbox: id })
  }
}

/** Removes one equal shape from the list. Returns false when the list has no equal shape. */
function removeFirst(from: Shape[], shape: Shape): boolean {
  const at = from.findIndex((one) => isSame(one, shape))
  if (at >= 0) from.splice(at, 1)
  return at >= 0
}
