/**
 * Has the bodies of one sandbox read by a thread of its own, so that an expensive body costs nobody else. The
 * thread starts with the first body that needs it, reads one after the other, and ends when it is idle. A body that
 * reaches the deadline fails with the thread; the next body starts another, a few times a minute.
 */
import { Worker } from 'node:worker_threads'
import { packageFile } from '../../lib/package-files.ts'
import type { GatewayLimits } from '../limits.ts'
import {
  movable,
  type ScanAnswer,
  type ScanFault,
  type ScanJob,
  type Scanned,
  type ScanTerms,
  scanBody,
} from './body-scan.ts'

/** `busy`: others of the same sandbox took too long. `scan_slow`, `scan_failed`: the thread was ended, or died. */
export type ScannerFault = 'busy' | 'gone' | 'scan_slow' | 'scan_failed'

export type ScannerLimits = Pick<GatewayLimits, 'scanMs' | 'scanWaitMs' | 'scanIdleMs'>

/**
 * Below this, handing a body over costs more than reading it: see docs/decisions/gateway.md. A body of this size is read in a
 * tenth of the time that its call takes on the main thread anyway.
 */
const INLINE_BYTES_MAX = 16 * 1024
/** A thread starts within tens of milliseconds, later where the machine has other things to do. */
const START_MS = 10_000
const FAILURES_MAX = 3
const FAILURES_WINDOW_MS = 60_000
/** Its own heap; the bytes of bodies are not part of it. */
const HEAP = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, codeRangeSizeMb: 16, stackSizeMb: 2 }
const MODULE = import.meta.url.endsWith('.ts') ? 'src/gateway/models/scan-worker.ts' : 'src/scan-body.cjs'

interface Job {
  readonly body: Buffer
  readonly terms: ScanTerms
  readonly settle: (result: Scanned | ScanFault | ScannerFault) => void
}

type Waiter = (mayGo: boolean) => void

export class BodyScanner {
  readonly #limits: ScannerLimits
  readonly #module: URL
  readonly #waiting: Job[] = []
  #current: Job | undefined
  #worker: Worker | undefined
  /** While a thread is being ended no other one starts: there is never more than one. */
  #ending: Promise<unknown> | undefined
  #timer: NodeJS.Timeout | undefined
  #failedMs: number[] = []
  #isClosed = false
  #isLargeTaken = false
  readonly #largeWaiters: Waiter[] = []

  constructor(limits: ScannerLimits, module?: URL) {
    this.#limits = limits
    this.#module = module ?? packageFile(MODULE)
  }

  /** The body is gone from the caller's memory afterwards; the bytes that come back are the ones to use. */
  async scan(
    body: Buffer,
    terms: ScanTerms,
    until: AbortSignal,
  ): Promise<Scanned | ScanFault | ScannerFault> {
    if (terms.coding === 'identity' && body.length <= INLINE_BYTES_MAX) return scanBody(body, terms)
    if (until.aborted) return 'gone'
    if (this.#isClosed || this.#hasFailedTooOften()) return 'scan_failed'
    const { promise, resolve } = Promise.withResolvers<Scanned | ScanFault | ScannerFault>()
    const job: Job = { body, terms, settle: resolve }
    this.#waiting.push(job)
    this.#next()
    const drop = (fault: 'busy' | 'gone') => {
      const at = this.#waiting.indexOf(job)
      if (at !== -1) this.#waiting.splice(at, 1)
      // One that is being read has its own deadline; if its client is gone, nobody waits for it.
      if (at !== -1 || fault === 'gone') resolve(fault)
    }
    return within(promise, this.#limits.scanWaitMs, until, drop)
  }

  /** Before a body over 1 MiB is read on. The slot is given back by calling what this resolves to. */
  async takeLargeSlot(until: AbortSignal): Promise<(() => void) | 'busy' | 'gone'> {
    if (!this.#isLargeTaken) {
      this.#isLargeTaken = true
      return this.#largeSlot()
    }
    const { promise, resolve } = Promise.withResolvers<'busy' | 'gone' | undefined>()
    const waiter: Waiter = (mayGo) => resolve(mayGo ? undefined : 'gone')
    this.#largeWaiters.push(waiter)
    const drop = (fault: 'busy' | 'gone') => {
      const at = this.#largeWaiters.indexOf(waiter)
      if (at === -1) return
      this.#largeWaiters.splice(at, 1)
      resolve(fault)
    }
    return (await within(promise, this.#limits.scanWaitMs, until, drop)) ?? this.#largeSlot()
  }

  /** The last client of the sandbox has disconnected, so nobody waits for what is being read. */
  abandon(): void {
    if (this.#current !== undefined) void this.#end('gone')
  }

  /** Ends the thread, and everybody who waits for it. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const { settle } of this.#waiting.splice(0)) settle('gone')
    for (const waiter of this.#largeWaiters.splice(0)) waiter(false)
    await this.#end('gone')
  }

  #largeSlot(): () => void {
    let isMine = true
    return () => {
      if (!isMine) return
      isMine = false
      const next = this.#largeWaiters.shift()
      if (next === undefined) this.#isLargeTaken = false
      else next(true)
    }
  }

  #next(): void {
    if (this.#current !== undefined || this.#ending !== undefined) return
    const job = this.#waiting.shift()
    clearTimeout(this.#timer)
    if (job === undefined) {
      this.#timer = setTimeout(() => void this.#end('gone'), this.#limits.scanIdleMs).unref()
      return
    }
    this.#current = job
    if (this.#worker === undefined) {
      this.#worker = this.#start()
      this.#allow(START_MS)
    } else this.#allow(this.#limits.scanMs)
    const bytes = movable(job.body)
    this.#worker.postMessage({ ...job.terms, bytes } satisfies ScanJob, [bytes])
  }

  #allow(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#failed('scan_slow'), ms)
  }

  #start(): Worker {
    // No environment, no arguments, no data: it knows nothing but this module and the bodies that it is sent.
    const worker = new Worker(this.#module, {
      ...{ env: {}, argv: [], execArgv: [], workerData: null, resourceLimits: HEAP },
      ...{ stdin: false, stdout: true, stderr: true, name: 'craik bodies' },
    })
    worker.unref()
    worker.once('online', () => {
      if (this.#worker === worker && this.#current !== undefined) this.#allow(this.#limits.scanMs)
    })
    worker.on('message', (answer: ScanAnswer) => {
      if (this.#worker === worker) this.#answered(answer)
    })
    const onGone = () => {
      if (this.#worker === worker) this.#failed('scan_failed')
    }
    worker.on('error', onGone).on('messageerror', onGone).on('exit', onGone)
    return worker
  }

  #answered(answer: ScanAnswer): void {
    const job = this.#current
    this.#current = undefined
    job?.settle('fault' in answer ? answer.fault : { ...answer, bytes: Buffer.from(answer.bytes) })
    this.#next()
  }

  #failed(fault: 'scan_slow' | 'scan_failed'): void {
    this.#failedMs.push(performance.now())
    void this.#end(fault)
    if (!this.#hasFailedTooOften()) return
    for (const { settle } of this.#waiting.splice(0)) settle('scan_failed')
  }

  /** Also what it is reading fails; what waits is read by the next thread. */
  #end(fault: ScannerFault): Promise<unknown> {
    clearTimeout(this.#timer)
    const job = this.#current
    const worker = this.#worker
    this.#current = undefined
    this.#worker = undefined
    job?.settle(fault)
    if (worker !== undefined)
      this.#ending = worker.terminate().finally(() => {
        this.#ending = undefined
        if (this.#waiting.length > 0) this.#next()
      })
    return this.#ending ?? Promise.resolve()
  }

  #hasFailedTooOften(): boolean {
    const since = performance.now() - FAILURES_WINDOW_MS
    this.#failedMs = this.#failedMs.filter((each) => each > since)
    return this.#failedMs.length >= FAILURES_MAX
  }
}

/** Calls `drop` when the wait is over or the last waiter is gone; whatever comes first is what this resolves to. */
async function within<Result>(
  result: Promise<Result>,
  waitMs: number,
  until: AbortSignal,
  drop: (fault: 'busy' | 'gone') => void,
): Promise<Result> {
  const timer = setTimeout(() => drop('busy'), waitMs)
  const onAbort = () => drop('gone')
  until.addEventListener('abort', onAbort, { once: true })
  if (until.aborted) onAbort()
  try {
    return await result
  } finally {
    clearTimeout(timer)
    until.removeEventListener('abort', onAbort)
  }
}
