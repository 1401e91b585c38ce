/** The open jobs of one sandbox: their owners, the bytes that crossed the boundary for them, and how they end. */
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import type { Measure } from '../../receipts/schema.ts'
import type { JobResult, JobStatus } from '../../sidecar/protocol.ts'
import type { Boundary } from '../boundary/boundary.ts'
import { type Begun, endOperation } from '../lifecycle/tokens.ts'
import type { OperationName } from '../operations.ts'
import type { BoundarySession } from './boundary-session.ts'
import type { ManagerOptions } from './manager-options.ts'
import { claimedMeasure, observedMeasure } from './operation.ts'

/** The limit is above the number of jobs that the sidecar runs at a time, plus those that are being started. */
const OPEN_JOBS = 1024
/** How long Craik waits for a client to reconnect and start a recorded job that the sidecar does not have. */
const MISSING_MS = 90_000
/** After this time without a request an upload is abandoned. */
const UPLOAD_MS = 15 * 60_000
/** A reader may still be reading the last output. The job ends when the reader has received no bytes for this time. */
const READER_MS = 5_000

export interface OpenJobEntry {
  readonly id: JobId
  readonly operation: OperationName
  readonly operator: string
  readonly begun: Begun
  readonly adopted: boolean
  readonly beganAtMs: number
  /** Craik stops the job when no client has read it or sent it input for this time. */
  readonly endsWhenLeftMs?: number
  /** Whether the receipts of this epoch account for the job. */
  accounted: boolean
  /** A request for the job went to the boundary, which counted it. */
  crossed: boolean
  /** The sandbox has started the job. */
  started: boolean
  /** Serializes the job's start, restart, uploaded parts and cancellation; `turns` is the number that run or wait. */
  turn: Promise<unknown>
  turns: number
  readers: number
  feeders: number
  /** `bytesIn` come from the sandbox, `bytesOut` go to it. */
  bytesIn: number
  bytesOut: number
  /** The time of the last request for this job. */
  touchedAtMs: number
  /** The time at which a reader last got bytes of it. */
  movedAtMs: number
  endSeenAtMs?: number
  /** An event has already reported that the job waits for the sandbox's disk. */
  diskWaitReported?: boolean
  ending?: Promise<void>
}

export class JobBook {
  readonly #options: ManagerOptions
  readonly #session: () => BoundarySession
  readonly #jobs = new Map<JobId, OpenJobEntry>()
  /** The jobs that ended most recently. A delayed response from the store can still list one of them as open. */
  readonly #recentlyEnded = new Set<JobId>()
  /** The instance id of the sidecar that the sandbox started with. Another sidecar has none of its jobs. */
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

  /** The number of open jobs, not counting uploads: an upload is not work of the sandbox. */
  get running(): number {
    return [...this.#jobs.values()].filter(({ operation }) => operation !== 'file_write').length
  }

  /** The number of jobs that have ended. */
  get ended(): number {
    return this.#ended
  }

  /** Returns the jobs that run in the sandbox. An upload is not work of the sandbox, so it is not in the list. */
  listStarted(): readonly OpenJobEntry[] {
    return [...this.#jobs.values()].filter((job) => job.started && job.operation !== 'file_write')
  }

  /** The sandbox is being stopped: from now on, jobs that fail get the outcome `stopped`. */
  markStopping(): void {
    this.#stopping = true
  }

  get(id: JobId): OpenJobEntry | undefined {
    return this.#jobs.get(id)
  }

  /** Stores the kernel's kill count at the start, so that later kills are noticed. */
  setInitialKillCount(outOfMemoryKills: number | undefined): void {
    this.#outOfMemoryKills ??= outOfMemoryKills
  }

  requireCapacity(): void {
    if (this.#jobs.size < OPEN_JOBS) return
    throw new CraikError('limit_reached', `the sandbox already has ${OPEN_JOBS} open jobs`, {
      hint: 'wait until a job ends; list the jobs:  craik sandbox logs ID',
    })
  }

  /** Returns `undefined` when the job has already ended. */
  add(
    job: Pick<OpenJobEntry, 'id' | 'operation' | 'operator' | 'begun' | 'adopted' | 'endsWhenLeftMs'> & {
      beganAtMs?: number
    },
  ): OpenJobEntry | undefined {
    const known = this.#jobs.get(job.id)
    if (known !== undefined || this.#recentlyEnded.has(job.id)) return known
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

  /**
   * Runs the work after earlier work for the same job. If the job has ended by then, it does not run the work and
   * returns `undefined`.
   */
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

  /** Ends the job: `passed` when it exited with 0. The sandbox's own figures are marked as claimed. */
  async endWith(job: OpenJobEntry, result: JobResult): Promise<void> {
    const killedForMemory = await this.#isKilledForMemory(job, result)
    const passed = result.outcome === 'exited' && result.exitCode === 0
    await this.end(job, passed ? 'passed' : 'failed', {
      measures: [
        ...(result.exitCode === null ? [] : [claimedMeasure('exit_code', result.exitCode)]),
        claimedMeasure('stdout_bytes', result.stdoutBytes),
        claimedMeasure('stderr_bytes', result.stderrBytes),
        claimedMeasure('stdin_bytes', result.stdinBytes),
        claimedMeasure('inside_ms', result.durationMs),
      ],
      metadata: {
        outcome: this.#stopping && !passed ? 'stopped' : result.outcome,
        ...(killedForMemory && { out_of_memory: true }),
      },
    })
  }

  /** Ends the job once. If the receipt cannot be written, the job stays open and the next check retries. */
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
        observedMeasure('duration_ms', this.#options.clock.nowMs() - job.beganAtMs),
        observedMeasure('bytes_in', job.bytesIn),
        observedMeasure('bytes_out', job.bytesOut),
        ...measures,
      ],
      metadata: { ...metadata, ...(!job.crossed && { crossed: false }) },
    })
    this.#jobs.delete(job.id)
    this.#recentlyEnded.add(job.id)
    if (this.#recentlyEnded.size > OPEN_JOBS)
      this.#recentlyEnded.delete(this.#recentlyEnded.values().next().value!)
    this.#ended++
    const outcome = typeof metadata.outcome === 'string' ? metadata.outcome : status
    session.events.add('job_ended', { job: job.id, message: outcome })
  }

  /**
   * Returns whether the kernel's kill count rose since the last check, for a job that was killed. The host cannot see
   * whether something else killed the job.
   */
  async #isKilledForMemory(job: OpenJobEntry, result: JobResult): Promise<boolean> {
    const killed =
      result.signal === 'SIGKILL' || result.exitCode === 137 || result.outcome === 'out_of_memory'
    if (!killed) return false
    const session = this.#session()
    const before = this.#outOfMemoryKills ?? 0
    const now = (await session.instance?.observe().catch(() => undefined))?.outOfMemoryKills ?? 0
    this.#outOfMemoryKills = now
    if (now <= before && result.outcome !== 'out_of_memory') return false
    session.events.add('out_of_memory', {
      job: job.id,
      message: 'killed because the sandbox is out of memory',
    })
    return now > before
  }

  /** Ends the jobs that have ended in the sandbox. Without a reader, only this call notices their end. */
  async endFinished(boundary: Boundary, until: AbortSignal): Promise<void> {
    const jobs = [...this.#jobs.values()].filter((job) => job.operation !== 'file_write' && !job.ending)
    if (jobs.length > 0) {
      const requestedAtMs = this.#options.clock.nowMs()
      const inside = new Map((await boundary.jobs.list(until)).map((status) => [status.id, status]))
      const ends = jobs.map((job) =>
        this.#applyStatus(job, inside.get(job.id), boundary.hello.instance, requestedAtMs),
      )
      await Promise.all(ends)
    }
    for (const job of this.#jobs.values()) {
      if (job.operation === 'file_write' && !job.ending) await this.#checkUpload(job, boundary, until)
    }
  }

  /**
   * Ends the jobs whose client has been gone for longer than their limit; a killed client sends no message. A client
   * that only reconnects returns sooner.
   */
  async endAbandoned(boundary: Boundary, until: AbortSignal): Promise<void> {
    for (const job of [...this.#jobs.values()].filter((one) => one.turns === 0 && this.#isAbandoned(one)))
      await this.inTurn(job, async () => {
        if (!this.#isAbandoned(job)) return
        await boundary.jobs.forget(job.id, until)
        await this.end(job, 'failed', { metadata: { outcome: 'left' } })
      })
  }

  #isAbandoned({ endsWhenLeftMs, readers, feeders, touchedAtMs, ending }: OpenJobEntry): boolean {
    if (endsWhenLeftMs === undefined || ending !== undefined || readers + feeders > 0) return false
    return this.#options.clock.nowMs() - touchedAtMs >= endsWhenLeftMs
  }

  async #applyStatus(
    job: OpenJobEntry,
    status: JobStatus | undefined,
    instance: string,
    requestedAtMs: number,
  ): Promise<void> {
    const nowMs = this.#options.clock.nowMs()
    if (status === undefined) {
      // The job is being started, or was while the answer was on its way.
      if (job.turns > 0 || job.touchedAtMs >= requestedAtMs) return
      const isOther = this.#instance() !== undefined && this.#instance() !== instance
      const timeoutMs = isOther ? 0 : MISSING_MS
      if (job.readers === 0 && nowMs - job.touchedAtMs >= timeoutMs) {
        // A job that was never sent to the boundary cannot have run.
        if (!job.crossed) await this.end(job, 'failed', { metadata: { outcome: 'not_started' } })
        else await this.end(job, 'indeterminate', { metadata: { outcome: 'lost' } })
      }
      return
    }
    job.started = true
    if (status.waiting === 'disk' && !job.diskWaitReported) {
      job.diskWaitReported = true
      this.#session().events.add('held_up', { job: job.id, message: 'waiting: the sandbox’s disk is full' })
    }
    if (status.state !== 'ended' || status.result === undefined) return
    job.endSeenAtMs ??= nowMs
    const quietMs = nowMs - Math.max(job.endSeenAtMs, job.movedAtMs)
    if (job.readers === 0 || quietMs >= READER_MS) await this.endWith(job, status.result)
  }

  /** Waits first, so that the request that sent the upload can end it. */
  async #checkUpload(job: OpenJobEntry, boundary: Boundary, until: AbortSignal): Promise<void> {
    const idleMs = this.#options.clock.nowMs() - job.touchedAtMs
    if (job.readers > 0 || idleMs < READER_MS) return
    const upload = await boundary.files.getUpload(job.id, until)
    if (upload?.committed) await this.end(job, 'passed', { metadata: { outcome: 'committed' } })
    else if (idleMs >= UPLOAD_MS) await this.end(job, 'failed', { metadata: { outcome: 'given_up' } })
  }

  /** Ends all jobs, because the sandbox is gone. */
  async endAll(outcome: string, status: 'failed' | 'indeterminate' = 'indeterminate'): Promise<void> {
    const ends = [...this.#jobs.values()].map((job) => this.end(job, status, { metadata: { outcome } }))
    await Promise.all(ends)
  }

  /** Waits until the pending ends are on disk. Open jobs stay open for the next process that manages the sandbox. */
  async waitForEnds(): Promise<void> {
    await Promise.all([...this.#jobs.values()].map((job) => job.ending))
  }
}
