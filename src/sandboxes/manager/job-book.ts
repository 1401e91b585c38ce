/** The jobs of one sandbox that are begun and not ended: who they belong to, what crossed for them, how they end. */
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import type { Measure } from '../../receipts/schema.ts'
import type { JobResult, JobStatus } from '../../sidecar/protocol.ts'
import type { Boundary } from '../boundary/boundary.ts'
import { type Begun, endOperation } from '../lifecycle/tokens.ts'
import type { OperationName } from '../operations.ts'
import { claimed, observed } from './operation.ts'
import type { ManagerOptions } from './options.ts'
import type { BoundarySession } from './session.ts'

/** More than the sidecar runs at a time, and their begins on the way. */
const OPEN_JOBS = 1024
/** What was begun and is not known inside may still be asked for again by a client that lost its connection. */
const MISSING_MS = 90_000
/** An upload that nobody goes on with. */
const UPLOAD_MS = 15 * 60_000
/** Somebody reads the end of it right now, and what they get is counted for as long as it moves. */
const READER_MS = 5_000

export interface OpenJobEntry {
  readonly id: JobId
  readonly operation: OperationName
  readonly operator: string
  readonly begun: Begun
  readonly adopted: boolean
  readonly beganAtMs: number
  /** It is ended when nobody has read it or fed it for so long. */
  readonly endsWhenLeftMs?: number
  /** Whether this epoch's receipts account for it. */
  accounted: boolean
  /** The boundary was asked for it, and counted it. */
  crossed: boolean
  /** The sandbox has it. */
  started: boolean
  /** Its start, its restart, its parts and its cancelling come one after the other; how many are at it or wait. */
  turn: Promise<unknown>
  turns: number
  readers: number
  feeders: number
  /** From the sandbox, and towards it. */
  bytesIn: number
  bytesOut: number
  /** When somebody last did something with it. */
  touchedAtMs: number
  /** When a reader last got a part of it. */
  movedAtMs: number
  endSeenAtMs?: number
  /** It was told that it waits for the sandbox's disk. */
  heldUp?: boolean
  ending?: Promise<void>
}

export class JobBook {
  readonly #options: ManagerOptions
  readonly #session: () => BoundarySession
  readonly #jobs = new Map<JobId, OpenJobEntry>()
  /** Those that ended last: an answer of the store may be on its way that says of one of them that it is open. */
  readonly #over = new Set<JobId>()
  /** Of the sidecar that the sandbox began with; another one knows none of its jobs. */
  readonly #instance: () => string | undefined
  #outOfMemoryKills: number | undefined
  #ended = 0
  #stopping = false

  constructor(options: ManagerOptions, session: () => BoundarySession, instance: () => string | undefined) {
    this.#options = options
    this.#session = session
    this.#instance = instance
  }

  get size(): number {
    return this.#jobs.size
  }

  /** Without uploads: they are no work of the sandbox. */
  get running(): number {
    return [...this.#jobs.values()].filter(({ operation }) => operation !== 'file_write').length
  }

  /** How many have ended. */
  get ended(): number {
    return this.#ended
  }

  /** What the sandbox has: no uploads, which are no work of it. */
  started(): readonly OpenJobEntry[] {
    return [...this.#jobs.values()].filter((job) => job.started && job.operation !== 'file_write')
  }

  /** From now on what ends does so because the sandbox is being stopped, unless it says that it is done. */
  stop(): void {
    this.#stopping = true
  }

  get(id: JobId): OpenJobEntry | undefined {
    return this.#jobs.get(id)
  }

  /** How often the kernel had ended something before. */
  remember(outOfMemoryKills: number | undefined): void {
    this.#outOfMemoryKills ??= outOfMemoryKills
  }

  requireRoom(): void {
    if (this.#jobs.size < OPEN_JOBS) return
    throw new CraikError('limit_reached', `the sandbox already has ${OPEN_JOBS} open jobs`)
  }

  /** Undefined when it has ended by now. */
  add(
    job: Pick<OpenJobEntry, 'id' | 'operation' | 'operator' | 'begun' | 'adopted' | 'endsWhenLeftMs'> & {
      beganAtMs?: number
    },
  ): OpenJobEntry | undefined {
    const known = this.#jobs.get(job.id)
    if (known !== undefined || this.#over.has(job.id)) return known
    const nowMs = this.#options.clock.nowMs()
    const entry: OpenJobEntry = {
      beganAtMs: nowMs,
      ...job,
      accounted: job.begun.epoch === this.#session().epoch,
      crossed: job.adopted,
      started: false,
      turn: Promise.resolve(),
      turns: 0,
      readers: 0,
      feeders: 0,
      bytesIn: 0,
      bytesOut: 0,
      touchedAtMs: nowMs,
      movedAtMs: nowMs,
    }
    this.#jobs.set(job.id, entry)
    return entry
  }

  /** One after the other, whoever asks. Undefined when it has ended by then: nothing is done under an end. */
  inTurn<T>(job: OpenJobEntry, work: () => Promise<T>): Promise<T | undefined> {
    job.turns++
    const mine = job.turn
      .then(async () => {
        await job.ending
        return this.#jobs.get(job.id) === job ? work() : undefined
      })
      .finally(() => job.turns--)
    job.turn = mine.catch(() => {})
    return mine
  }

  /** Passed when it exited with 0; what the inside says of it is marked as such. */
  async endWith(job: OpenJobEntry, result: JobResult): Promise<void> {
    const killedForMemory = await this.#killedForMemory(job, result)
    const passed = result.outcome === 'exited' && result.exitCode === 0
    await this.end(job, passed ? 'passed' : 'failed', {
      measures: [
        ...(result.exitCode === null ? [] : [claimed('exit_code', result.exitCode)]),
        claimed('stdout_bytes', result.stdoutBytes),
        claimed('stderr_bytes', result.stderrBytes),
        claimed('stdin_bytes', result.stdinBytes),
        claimed('inside_ms', result.durationMs),
      ],
      metadata: {
        outcome: this.#stopping && !passed ? 'stopped' : result.outcome,
        ...(killedForMemory && { out_of_memory: true }),
      },
    })
  }

  /** Once. A receipt that cannot be written now leaves the job open, and is tried again. */
  end(
    job: OpenJobEntry,
    status: 'passed' | 'failed' | 'indeterminate',
    facts: {
      readonly measures?: readonly Measure[]
      readonly metadata?: Record<string, string | boolean>
    } = {},
  ): Promise<void> {
    job.ending ??= this.#write(job, status, facts).catch((error) => {
      delete job.ending
      const why = error instanceof Error ? error.message : String(error)
      this.#options.logger('error', `could not record the end of a job: ${why}`, { job: job.id })
    })
    return job.ending
  }

  async #write(
    job: OpenJobEntry,
    status: 'passed' | 'failed' | 'indeterminate',
    { measures = [], metadata = {} }: Parameters<JobBook['end']>[2] & {},
  ): Promise<void> {
    const session = this.#session()
    await this.#options.store.write(endOperation, {
      id: session.id,
      begun: job.begun,
      jobId: job.id,
      status,
      measures: [
        observed('duration_ms', this.#options.clock.nowMs() - job.beganAtMs),
        observed('bytes_in', job.bytesIn),
        observed('bytes_out', job.bytesOut),
        ...measures,
      ],
      metadata: { ...metadata, ...(!job.crossed && { crossed: false }) },
    })
    this.#jobs.delete(job.id)
    this.#over.add(job.id)
    if (this.#over.size > OPEN_JOBS) this.#over.delete(this.#over.values().next().value!)
    this.#ended++
    const outcome = typeof metadata.outcome === 'string' ? metadata.outcome : status
    session.events.add('job_ended', { job: job.id, message: outcome })
  }

  /** The kernel's count went up and a job was killed: what else could have done it is not seen by the host. */
  async #killedForMemory(job: OpenJobEntry, result: JobResult): Promise<boolean> {
    const killed =
      result.signal === 'SIGKILL' || result.exitCode === 137 || result.outcome === 'out_of_memory'
    if (!killed) return false
    const session = this.#session()
    const before = this.#outOfMemoryKills ?? 0
    const now = (await session.place?.observe().catch(() => undefined))?.outOfMemoryKills ?? 0
    this.#outOfMemoryKills = now
    if (now <= before && result.outcome !== 'out_of_memory') return false
    session.events.add('out_of_memory', {
      job: job.id,
      message: 'killed because the sandbox is out of memory',
    })
    return now > before
  }

  /** Asks the sandbox what became of the jobs that nobody watches. */
  async look(boundary: Boundary, until: AbortSignal): Promise<void> {
    const jobs = [...this.#jobs.values()].filter((job) => job.operation !== 'file_write' && !job.ending)
    if (jobs.length > 0) {
      const askedAtMs = this.#options.clock.nowMs()
      const inside = new Map((await boundary.jobs.list(until)).map((status) => [status.id, status]))
      const ends = jobs.map((job) =>
        this.#settle(job, inside.get(job.id), boundary.hello.instance, askedAtMs),
      )
      await Promise.all(ends)
    }
    for (const job of this.#jobs.values()) {
      if (job.operation === 'file_write' && !job.ending) await this.#settleUpload(job, boundary, until)
    }
  }

  /** Those that go with whoever drove them: killed, it says no word. Who lost only the connection is back by then. */
  async endLeft(boundary: Boundary, until: AbortSignal): Promise<void> {
    for (const job of [...this.#jobs.values()].filter((one) => one.turns === 0 && this.#isLeft(one)))
      await this.inTurn(job, async () => {
        if (!this.#isLeft(job)) return
        await boundary.jobs.forget(job.id, until)
        await this.end(job, 'failed', { metadata: { outcome: 'left' } })
      })
  }

  #isLeft({ endsWhenLeftMs, readers, feeders, touchedAtMs, ending }: OpenJobEntry): boolean {
    if (endsWhenLeftMs === undefined || ending !== undefined || readers + feeders > 0) return false
    return this.#options.clock.nowMs() - touchedAtMs >= endsWhenLeftMs
  }

  async #settle(
    job: OpenJobEntry,
    status: JobStatus | undefined,
    instance: string,
    askedAtMs: number,
  ): Promise<void> {
    const nowMs = this.#options.clock.nowMs()
    if (status === undefined) {
      // It is being started, or was while the answer was on its way.
      if (job.turns > 0 || job.touchedAtMs >= askedAtMs) return
      const isOther = this.#instance() !== undefined && this.#instance() !== instance
      const patienceMs = isOther ? 0 : MISSING_MS
      if (job.readers === 0 && nowMs - job.touchedAtMs >= patienceMs) {
        // What the boundary was never asked for cannot have run.
        if (!job.crossed) await this.end(job, 'failed', { metadata: { outcome: 'not_started' } })
        else await this.end(job, 'indeterminate', { metadata: { outcome: 'lost' } })
      }
      return
    }
    job.started = true
    if (status.waiting === 'disk' && !job.heldUp) {
      job.heldUp = true
      this.#session().events.add('held_up', { job: job.id, message: 'waiting: the sandbox’s disk is full' })
    }
    if (status.state !== 'ended' || status.result === undefined) return
    job.endSeenAtMs ??= nowMs
    const quietMs = nowMs - Math.max(job.endSeenAtMs, job.movedAtMs)
    if (job.readers === 0 || quietMs >= READER_MS) await this.endWith(job, status.result)
  }

  /** Asked for only after a while: whoever sends it is told of its end first. */
  async #settleUpload(job: OpenJobEntry, boundary: Boundary, until: AbortSignal): Promise<void> {
    const idleMs = this.#options.clock.nowMs() - job.touchedAtMs
    if (job.readers > 0 || idleMs < READER_MS) return
    const upload = await boundary.files.uploaded(job.id, until)
    if (upload?.committed) await this.end(job, 'passed', { metadata: { outcome: 'committed' } })
    else if (idleMs >= UPLOAD_MS) await this.end(job, 'failed', { metadata: { outcome: 'given_up' } })
  }

  /** The sandbox is gone, and they with it. */
  async lose(outcome: string, status: 'failed' | 'indeterminate' = 'indeterminate'): Promise<void> {
    const ends = [...this.#jobs.values()].map((job) => this.end(job, status, { metadata: { outcome } }))
    await Promise.all(ends)
  }

  /** What is being written is on disk. Open jobs stay open: whoever comes next takes them over. */
  async quiet(): Promise<void> {
    await Promise.all([...this.#jobs.values()].map((job) => job.ending))
  }
}
