/** All jobs of this run of the sidecar, by the ids that the host chose. */
import { createHash } from 'node:crypto'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import { type JobSpec, type JobStatus, LIMITS } from '../protocol.ts'
import { SidecarError } from '../router.ts'
import { Job, type StartProgram } from './job.ts'

interface RegistryLimits {
  readonly runningJobs: number
  readonly endedJobs: number
  readonly endedJobKeepMs: number
  readonly endedSpillBytes: number
  readonly archiveJobs: number
  readonly archiveIdleMs: number
  readonly defaultOutputBytes: number
  readonly forgottenIds: number
}

export interface RegistryOptions {
  readonly start: StartProgram
  readonly spillFolder: string
  readonly limits?: Partial<RegistryLimits>
}

/** The memory limit of all ended jobs together. Above it, the logs of the oldest go to the disk. */
const ENDED_MEMORY_BYTES = 8 * 1024 * 1024
const SWEEP_EVERY_MS = 60_000
/** The number of forgotten jobs whose ids are remembered, so that they do not run again. */
const FORGOTTEN_IDS = 4096

export class JobRegistry {
  readonly #options: RegistryOptions
  readonly #limits: RegistryLimits
  readonly #running = new Map<string, Job>()
  /** The oldest comes first. */
  readonly #ended = new Map<string, { readonly job: Job; readonly atMs: number }>()
  /** The time when each job was forgotten, by its id, oldest first. */
  readonly #forgotten = new Map<string, number>()
  /** The time when the last job was forgotten whose id is no longer remembered either. */
  #unknownSinceMs = Number.NEGATIVE_INFINITY
  readonly #sweep: NodeJS.Timeout

  constructor(options: RegistryOptions) {
    this.#options = options
    this.#limits = { ...LIMITS, forgottenIds: FORGOTTEN_IDS, ...options.limits }
    this.#sweep = setInterval(() => this.#forgetOld(), SWEEP_EVERY_MS).unref()
  }

  get runningCount(): number {
    return this.#running.size
  }

  /**
   * Starts the job, or returns the one that was started under this id, so that a repeated request does not run twice.
   * If the first request was `ageMs` ago, and the job may have run and been forgotten since, it is `gone`.
   */
  async start(
    id: string,
    spec: JobSpec,
    ageMs = 0,
  ): Promise<{ readonly job: Job; readonly created: boolean }> {
    const digest = createHash('sha256')
      .update(canonicalJson(spec as unknown as Json))
      .digest('hex')
    const known = this.find(id)
    if (known) {
      if (known.digest !== digest)
        throw new SidecarError('conflict', `the job id ${id} is already used by another command`)
      await known.started
      return { job: known, created: false }
    }
    if (this.#mayHaveRun(id, ageMs))
      throw new SidecarError('gone', `job ${id} ran or may have run, and is no longer known`)
    if (this.#running.size >= this.#limits.runningJobs)
      throw new SidecarError('busy', `${this.#running.size} jobs are running, which is the limit`)
    this.#requireArchiveCapacity(spec)
    const job = new Job({
      id,
      spec,
      digest,
      spillFolder: this.#options.spillFolder,
      start: this.#options.start,
      archiveIdleMs: this.#limits.archiveIdleMs,
      defaultOutputBytes: this.#limits.defaultOutputBytes,
      onEnded: (ended) => this.#onEnded(ended),
    })
    this.#running.set(id, job)
    try {
      await job.started
    } catch (error) {
      // Nothing ran, so the id is free for another attempt.
      this.#running.delete(id)
      job.log.close()
      throw error
    }
    return { job, created: true }
  }

  find(id: string): Job | undefined {
    return this.#running.get(id) ?? this.#ended.get(id)?.job
  }

  get(id: string): Job {
    const job = this.find(id)
    if (!job) throw new SidecarError('not_found', `unknown job: ${id}`)
    return job
  }

  list(): JobStatus[] {
    return [...[...this.#ended.values()].map(({ job }) => job), ...this.#running.values()].map((job) =>
      job.status(),
    )
  }

  /** Returns the job whose program has this pid. */
  jobOf(pid: number): string | undefined {
    for (const job of this.#running.values()) if (job.pid === pid) return job.id
    return undefined
  }

  /** Ends the job if it runs, and forgets it. If the id is unknown, a later request with this id does not run. */
  async remove(id: string): Promise<void> {
    if (!this.find(id)) this.#keepId(id)
    const job = this.get(id)
    await job.cancel()
    this.#forget(id)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep)
    await Promise.all([...this.#running.values()].map((job) => job.cancel()))
    for (const id of [...this.#ended.keys()]) this.#forget(id)
  }

  #onEnded(job: Job): void {
    this.#running.delete(job.id)
    this.#ended.set(job.id, { job, atMs: performance.now() })
    this.#forgetOld()
    this.#releaseOld()
    void this.#parkOld()
  }

  #requireArchiveCapacity({ kind }: JobSpec): void {
    if (kind !== 'tar-in' && kind !== 'tar-out') return
    const running = [...this.#running.values()].filter((job) => job.isArchive).length
    if (running >= this.#limits.archiveJobs)
      throw new SidecarError('busy', `${running} copies of folders are running, which is the limit`)
  }

  /**
   * Drops the output of ended jobs from the disk, oldest first. The newest job keeps its output, because its own limit
   * applies. Output that has a reader stays, too.
   */
  #releaseOld(): void {
    const logs = [...this.#ended.values()].map(({ job }) => job.log)
    let bytes = logs.reduce((sum, log) => sum + log.spillBytes, 0)
    for (const log of logs.slice(0, -1)) {
      if (bytes <= this.#limits.endedSpillBytes) return
      if (log.readers > 0) continue
      bytes -= log.spillBytes
      log.releaseSpill()
    }
  }

  #forgetOld(): void {
    const before = performance.now() - this.#limits.endedJobKeepMs
    for (const [id, { atMs }] of this.#ended) {
      if (atMs > before && this.#ended.size <= this.#limits.endedJobs) break
      this.#forget(id)
    }
  }

  #forget(id: string): void {
    this.#ended.get(id)?.job.log.close()
    this.#ended.delete(id)
    this.#keepId(id)
  }

  #keepId(id: string): void {
    this.#forgotten.delete(id)
    this.#forgotten.set(id, performance.now())
    if (this.#forgotten.size <= this.#limits.forgottenIds) return
    const [oldest, atMs] = this.#forgotten.entries().next().value!
    this.#forgotten.delete(oldest)
    this.#unknownSinceMs = atMs
  }

  /**
   * Returns whether a job may have run. Jobs that were forgotten after `#unknownSinceMs` are known by id. About earlier
   * jobs nothing is known.
   */
  #mayHaveRun(id: string, ageMs: number): boolean {
    return this.#forgotten.has(id) || performance.now() - ageMs < this.#unknownSinceMs
  }

  async #parkOld(): Promise<void> {
    const logs = [...this.#ended.values()].map(({ job }) => job.log)
    let bytes = logs.reduce((sum, log) => sum + log.memoryBytes, 0)
    for (const log of logs) {
      if (bytes <= ENDED_MEMORY_BYTES) return
      bytes -= log.memoryBytes
      await log.park()
    }
  }
}
