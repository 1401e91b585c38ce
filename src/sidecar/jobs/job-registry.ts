/** All jobs of this run of the sidecar, by the ids that the host gave them. */
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

/** What ended jobs may hold in memory together; above it the oldest go to the disk. */
const ENDED_MEMORY_BYTES = 8 * 1024 * 1024
const SWEEP_EVERY_MS = 60_000
/** Ids that are kept of jobs of which nothing else is: what ran under one of them does not run again. */
const FORGOTTEN_IDS = 4096

export class JobRegistry {
  readonly #options: RegistryOptions
  readonly #limits: RegistryLimits
  readonly #running = new Map<string, Job>()
  /** Oldest first. */
  readonly #ended = new Map<string, { readonly job: Job; readonly atMs: number }>()
  /** By id, when each was forgotten, oldest first. */
  readonly #forgotten = new Map<string, number>()
  /** When the last one was forgotten whose id is not kept any more either. */
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
   * Starts it, or finds the one that was started under this id: a repeated request runs nothing twice. What was first
   * asked for `ageMs` ago, and may have run and been forgotten since, is `gone`.
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
        throw new SidecarError('conflict', `job id ${id} belongs to another request`)
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
      // Nothing ran: the id is free for another try.
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

  /** The job whose program has this process id. */
  jobOf(pid: number): string | undefined {
    for (const job of this.#running.values()) if (job.pid === pid) return job.id
    return undefined
  }

  /** Ends it if it runs, and forgets it. One that is not here yet will not run when it comes. */
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

  /** The newest keeps what it has: its own limit holds for it. What is being read right now stays, too. */
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

  /** Whoever ran after that time and was forgotten is still known by id; of who came before, nobody can say. */
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
