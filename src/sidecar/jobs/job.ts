/** One job that the host runs in the sandbox: its program, its log, its input and its result. */
import { setTimeout as sleep } from 'node:timers/promises'
import { FRAME } from '../../lib/frames.ts'
import { type JobOutcome, type JobResult, type JobSpec, type JobStatus, LIMITS } from '../protocol.ts'
import { SidecarError } from '../router.ts'
import { InputLock } from './input-lock.ts'
import { JobLog, type LogMode } from './job-log.ts'
import { NotStarted, type Program, type ProgramEnd, type ProgramEvents } from './program.ts'

export type StartProgram = (spec: JobSpec, events: ProgramEvents) => Promise<Program>

export interface JobOptions {
  readonly id: string
  readonly spec: JobSpec
  readonly digest: string
  readonly spillFolder: string
  readonly start: StartProgram
  /** How long a job that packs or unpacks continues without a reader or sender. */
  readonly archiveIdleMs?: number
  /** The limit of stored and unacknowledged output, for a job without a limit of its own. */
  readonly defaultOutputBytes?: number
  readonly onEnded: (job: Job) => void
}

/** How long a program has to exit after the first signal, and how long the kernel has to carry out a SIGKILL. */
const GRACE_MS = 2000
const KILL_WAIT_MS = 5000
const POLL_MS = 20

/** How many times the job checks for a reader or sender during the idle time. */
const IDLE_CHECKS = 8

/** When a program is ended while its log is full, the log still takes this much of its output. */
const FINAL_OUTPUT_BYTES = 1024 * 1024

const MODES: Readonly<Record<JobSpec['kind'], LogMode>> = {
  exec: 'spill',
  terminal: 'ring',
  'tar-in': 'spill',
  'tar-out': 'window',
}

const MEMORY: Readonly<Record<LogMode, number>> = {
  spill: LIMITS.logMemoryBytes,
  ring: LIMITS.terminalMemoryBytes,
  window: LIMITS.windowBytes,
}

export class Job {
  readonly id: string
  readonly digest: string
  readonly kind: JobSpec['kind']
  readonly takesInput: boolean
  readonly log: JobLog
  /** If two clients sent input at the same time, each would count the other's bytes as its own. */
  readonly inputLock = new InputLock()
  readonly startedAtMs = Date.now()
  /** Settles when the program runs, or has failed to start in a way that is a result. */
  readonly started: Promise<void>
  readonly #ended = Promise.withResolvers<void>()
  readonly #options: JobOptions
  readonly #since = performance.now()
  /** `undefined`: only stored output counts. */
  readonly #maxOutputBytes: number | undefined
  #program: Program | undefined
  #deadline: NodeJS.Timeout | undefined
  #endedBy: JobOutcome | undefined
  #down: Promise<void> | undefined
  #result: JobResult | undefined
  #stdoutBytes = 0
  #stderrBytes = 0
  #inputOffset = 0
  #inputEnded = false
  #inputFull = false
  #inputDrain = Promise.withResolvers<void>()
  #lastBytes: number | undefined
  #attendedAtMs = performance.now()
  #attendance: NodeJS.Timeout | undefined

  constructor(options: JobOptions) {
    const { spec } = options
    this.#options = options
    this.id = options.id
    this.digest = options.digest
    this.kind = spec.kind
    this.takesInput =
      spec.kind === 'terminal' || spec.kind === 'tar-in' || (spec.kind === 'exec' && spec.stdin === true)
    this.#maxOutputBytes = spec.kind === 'exec' ? spec.maxOutputBytes : Number.POSITIVE_INFINITY
    const mode = MODES[spec.kind]
    this.log = new JobLog({
      mode,
      memoryBytes: MEMORY[mode],
      spillFolder: options.spillFolder,
      aheadBytes: LIMITS.aheadBytes,
      onDrain: () => {
        if (this.log.hasCapacity) this.#program?.resume()
      },
    })
    this.started = this.#start()
  }

  get result(): JobResult | undefined {
    return this.#result
  }

  get pid(): number | undefined {
    return this.#result ? undefined : this.#program?.pid
  }

  get isArchive(): boolean {
    return this.kind === 'tar-in' || this.kind === 'tar-out'
  }

  get inputOffset(): number {
    return this.#inputOffset
  }

  /** False: the bytes that were sent last wait until the program reads. */
  get hasInputCapacity(): boolean {
    return !this.#inputFull
  }

  /** Settles when the last frame is in the log. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  status(): JobStatus {
    return {
      id: this.id,
      kind: this.kind,
      state: this.#result ? 'ended' : 'running',
      pid: this.pid ?? null,
      startedAtMs: this.startedAtMs,
      first: this.log.first,
      position: this.log.position,
      inputOffset: this.#inputOffset,
      inputEnded: this.#inputEnded,
      readers: this.log.readers,
      ...(this.log.waitsForDisk ? { waiting: 'disk' as const } : {}),
      ...(this.#result ? { result: this.#result } : {}),
    }
  }

  /** Records that a client used the job until now. */
  touch(): void {
    this.#attendedAtMs = performance.now()
  }

  /**
   * Writes bytes of the input from an offset on. Ignores bytes that arrived before. Resolves when there is capacity for
   * more.
   */
  async input(offset: number, chunk: Buffer): Promise<void> {
    if (offset > this.#inputOffset)
      throw new SidecarError(
        'conflict',
        `the input of ${this.id} is at offset ${this.#inputOffset}, not ${offset}`,
      )
    const fresh = chunk.subarray(this.#inputOffset - offset)
    if (fresh.length === 0) return
    if (this.#inputEnded) throw new SidecarError('conflict', `the input of ${this.id} has ended`)
    this.#inputOffset += fresh.length
    this.log.wakeReaders()
    if (this.#result || this.#program?.write(fresh) !== false) return
    this.#inputFull = true
    await this.#inputDrain.promise
  }

  /** Ends the input at that offset. */
  endInput(offset: number): void {
    if (offset !== this.#inputOffset)
      throw new SidecarError(
        'conflict',
        `the input of ${this.id} is at offset ${this.#inputOffset}, not ${offset}`,
      )
    if (this.#inputEnded) return
    this.#inputEnded = true
    if (!this.#result) this.#program?.endInput()
  }

  signal(signal: NodeJS.Signals): void {
    this.#running().signal(signal)
  }

  resize(cols: number, rows: number): void {
    const program = this.#running()
    if (!program.resize) throw new SidecarError('conflict', `${this.id} is not a terminal`)
    program.resize(cols, rows)
  }

  /** Asks the program to exit, and then kills it. Settles when it is gone. */
  async cancel(): Promise<void> {
    await this.started.catch(() => {})
    this.#endBy('cancelled')
    await this.#down
    await this.ended
  }

  async #start(): Promise<void> {
    const { spec, start } = this.#options
    try {
      this.#program = await start(spec, {
        onOutput: (stream, chunk) => this.#onOutput(stream, chunk),
        onInputDrain: () => this.#onInputDrain(),
        onExit: (end) => this.#onExit(end),
        onEnd: (end) => this.#finish(end),
      })
    } catch (error) {
      if (!(error instanceof NotStarted)) throw error
      this.#endedBy = 'not_started'
      this.#finish({ exitCode: null, signal: null }, error.reason)
      return
    }
    if (this.isArchive && !this.#result) {
      const idleMs = this.#options.archiveIdleMs ?? LIMITS.archiveIdleMs
      this.#attendance = setInterval(() => this.#checkAttendance(idleMs), idleMs / IDLE_CHECKS).unref()
    }
    const timeoutMs = spec.kind === 'exec' || spec.kind === 'terminal' ? spec.timeoutMs : undefined
    if (timeoutMs !== undefined && !this.#result) {
      this.#deadline = setTimeout(() => this.#endBy('timeout'), timeoutMs)
    }
  }

  #onOutput(stream: 'stdout' | 'stderr', chunk: Buffer): void {
    if (this.#endedBy === 'output_limit' || this.#endedBy === 'cancelled') return
    const left = this.#remainingBytes()
    let taken = chunk.length > left ? chunk.subarray(0, left) : chunk
    if (this.#lastBytes !== undefined) {
      taken = taken.subarray(0, this.#lastBytes)
      this.#lastBytes -= taken.length
    }
    if (stream === 'stdout') this.#stdoutBytes += taken.length
    else this.#stderrBytes += taken.length
    if (taken.length > 0) this.log.append(FRAME[stream], taken)
    if (chunk.length > left) this.#endBy('output_limit')
    else if (!this.log.hasCapacity && this.#lastBytes === undefined) this.#program?.pause()
  }

  #remainingBytes(): number {
    if (this.#maxOutputBytes !== undefined)
      return this.#maxOutputBytes - this.#stdoutBytes - this.#stderrBytes
    const stored = this.log.position - this.log.acknowledged
    return Math.max(0, (this.#options.defaultOutputBytes ?? LIMITS.defaultOutputBytes) - stored)
  }

  /** A killed program leaves only what is in its pipes. Its end must not wait for a reader to take that. */
  #onExit({ signal }: ProgramEnd): void {
    if (signal === null || !(this.kind === 'tar-out' || this.log.waitsForDisk)) return
    this.#lastBytes ??= FINAL_OUTPUT_BYTES
    this.#program?.resume()
  }

  /**
   * Cancels an archive job without a reader or sender, because only they have a use for it. A job that has all of its
   * input finishes by itself.
   */
  #checkAttendance(idleMs: number): void {
    const nowMs = performance.now()
    if (this.log.readers > 0 || this.inputLock.isFed || this.#inputEnded) this.#attendedAtMs = nowMs
    else if (nowMs - this.#attendedAtMs >= idleMs) this.#endBy('cancelled')
  }

  #onInputDrain(): void {
    this.#inputFull = false
    this.#inputDrain.resolve()
    this.#inputDrain = Promise.withResolvers()
  }

  #endBy(outcome: JobOutcome): void {
    if (this.#result || this.#endedBy || !this.#program) return
    this.#endedBy = outcome
    this.#down = this.#bringDown(this.#program)
  }

  async #bringDown(program: Program): Promise<void> {
    // When a job was cancelled or exceeded its output limit, nothing more is stored, so its program need not pause.
    if (this.#endedBy !== 'timeout') program.resume()
    program.signalAll(program.hangUpSignal)
    await waitUntil(() => !program.isAlive(), GRACE_MS)
    program.signalAll('SIGKILL')
    await waitUntil(() => !program.isAlive(), KILL_WAIT_MS)
    // Only processes that have left the group can still write, so a full log must not delay the end.
    this.#lastBytes = FINAL_OUTPUT_BYTES
    program.resume()
    await Promise.race([this.ended, sleep(KILL_WAIT_MS, undefined, { ref: false })])
    this.#finish({ exitCode: null, signal: 'SIGKILL' })
  }

  #finish(end: ProgramEnd, error?: string): void {
    if (this.#result) return
    clearTimeout(this.#deadline)
    clearInterval(this.#attendance)
    this.#result = {
      outcome: this.#endedBy ?? (end.signal === null ? 'exited' : 'signalled'),
      exitCode: end.exitCode,
      signal: end.signal,
      ...(error === undefined ? {} : { error }),
      stdoutBytes: this.#stdoutBytes,
      stderrBytes: this.#stderrBytes,
      stdinBytes: this.#inputOffset,
      durationMs: Math.round(performance.now() - this.#since),
    }
    // The job stays known for a while, but the resources of its program are not needed.
    this.#program = undefined
    this.log.append(FRAME.exit, Buffer.from(JSON.stringify(this.#result)))
    this.log.end()
    this.#onInputDrain()
    this.#ended.resolve()
    this.#options.onEnded(this)
  }

  #running(): Program {
    if (this.#result || !this.#program) throw new SidecarError('conflict', `${this.id} is no longer running`)
    return this.#program
  }
}

async function waitUntil(isTrue: () => boolean, maxMs: number): Promise<void> {
  const until = performance.now() + maxMs
  while (!isTrue() && performance.now() < until) await sleep(POLL_MS)
}
