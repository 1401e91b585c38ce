/**
 * Scans the bodies of one sandbox in its own thread, so that an expensive body delays no other sandbox. The thread
 * starts with the first body that needs it, scans one after the other, and exits when it is idle. A body that reaches
 * the deadline fails with the thread. The next body starts another thread, a few times a minute.
 */
import { Worker } from 'node:worker_threads'
import { packageFile } from '../../lib/package-files.ts'
import type { GatewayLimits } from '../gateway-limits.ts'
import {
  type ScanAnswer,
  type ScanFault,
  type ScanJob,
  type Scanned,
  type ScanTerms,
  scanBody,
} from './body-scan.ts'

/**
 * `busy`: other bodies of the same sandbox took too long. `scan_slow`, `scan_failed`: the thread was terminated, or
 * died.
 */
export type ScannerFault = 'busy' | 'gone' | 'scan_slow' | 'scan_failed'

export type ScannerLimits = Pick<GatewayLimits, 'scanMs' | 'scanWaitMs' | 'scanIdleMs'>

/**
 * Below this size, handing a body over costs more CPU time than scanning it: see docs/explanation/decisions/gateway.md.
 * The main thread scans a body of this size in 0.3 ms, and in 1.3 ms in the worst case.
 */
const INLINE_BYTES_MAX = 144 * 1024
/**
 * Text of that length takes half of this. After several slow bodies in a row, those over the second limit go to the
 * thread for a while: four connections with the worst case would double the time of `exec` in other sandboxes.
 */
const INLINE_MS_MAX = 0.6
/** One or two may be slow because the machine is busy. */
const SLOW_IN_ROW = 3
const INLINE_BYTES_AFTER_SLOW = 16 * 1024
const AFTER_SLOW_MS = 1_000
/** The shared memory starts with this size and doubles until a body fits. */
const SHARED_BYTES_MIN = 256 * 1024
/** A thread starts within tens of milliseconds, or later on a busy machine. */
const START_MS = 10_000
const FAILURES_MAX = 3
const FAILURES_WINDOW_MS = 60_000
/** The thread's own heap. The bytes of bodies are not part of it. */
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
  /** No thread starts while another one terminates: there is never more than one. */
  #ending: Promise<unknown> | undefined
  #timer: NodeJS.Timeout | undefined
  /**
   * Bodies are copied into this memory for the thread. It is reused, so that V8 has no garbage of a body's size to
   * collect.
   */
  #memory = new SharedArrayBuffer(0)
  #failedMs: number[] = []
  #slowInRow = 0
  #inlineSlowMs = Number.NEGATIVE_INFINITY
  #isClosed = false
  #isLargeTaken = false
  readonly #largeWaiters: Waiter[] = []

  constructor(limits: ScannerLimits, module?: URL) {
    this.#limits = limits
    this.#module = module ?? packageFile(MODULE)
  }

  /**
   * Joins the chunks, frees them, and scans the body. The result contains the bytes, decompressed if they were
   * compressed. The thread works on a copy and cannot change an uncompressed body.
   */
  async scan(
    pieces: readonly Buffer[],
    terms: ScanTerms,
    until: AbortSignal,
  ): Promise<Scanned | ScanFault | ScannerFault> {
    const body = join(pieces)
    if (terms.coding === 'identity' && body.length <= this.#inlineBytesMax())
      return this.#scanInline(body, terms)
    if (until.aborted) return 'gone'
    if (this.#isClosed || this.#hasFailedTooOften()) return 'scan_failed'
    const { promise, resolve } = Promise.withResolvers<Scanned | ScanFault | ScannerFault>()
    const job: Job = { body, terms, settle: resolve }
    this.#waiting.push(job)
    this.#next()
    const drop = (fault: 'busy' | 'gone') => {
      const at = this.#waiting.indexOf(job)
      if (at !== -1) this.#waiting.splice(at, 1)
      // A body in the thread has its own deadline. If its client is gone, nobody waits for it.
      if (at !== -1 || fault === 'gone') resolve(fault)
    }
    return within(promise, this.#limits.scanWaitMs, until, drop)
  }

  /** Waits for the slot that a body over 1 MiB needs. Resolves to a function that releases the slot. */
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

  /** The last client of the sandbox has disconnected, so nobody waits for the current scan. */
  abandon(): void {
    if (this.#current !== undefined) void this.#end('gone')
  }

  /** Terminates the thread, and fails all waiting bodies. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const { settle } of this.#waiting.splice(0)) settle('gone')
    for (const waiter of this.#largeWaiters.splice(0)) waiter(false)
    this.#memory = new SharedArrayBuffer(0)
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

  #inlineBytesMax(): number {
    const isAfterSlow = performance.now() - this.#inlineSlowMs < AFTER_SLOW_MS
    return isAfterSlow ? INLINE_BYTES_AFTER_SLOW : INLINE_BYTES_MAX
  }

  #scanInline(body: Buffer, terms: ScanTerms): Scanned | ScanFault {
    const startedMs = performance.now()
    const scanned = scanBody(body, terms)
    const endedMs = performance.now()
    this.#slowInRow = endedMs - startedMs > INLINE_MS_MAX ? this.#slowInRow + 1 : 0
    if (this.#slowInRow >= SLOW_IN_ROW) this.#inlineSlowMs = endedMs
    return scanned
  }

  #next(): void {
    if (this.#current !== undefined || this.#ending !== undefined) return
    const job = this.#waiting.shift()
    clearTimeout(this.#timer)
    if (job === undefined) {
      this.#timer = setTimeout(() => this.#endIdle(), this.#limits.scanIdleMs).unref()
      return
    }
    this.#current = job
    if (this.#worker === undefined) {
      this.#worker = this.#start()
      this.#allow(START_MS)
    } else this.#allow(this.#limits.scanMs)
    const { body, terms } = job
    const memory = this.#share(body)
    this.#worker.postMessage({ ...terms, memory, length: body.length } satisfies ScanJob)
  }

  #share(body: Buffer): SharedArrayBuffer {
    let size = Math.max(this.#memory.byteLength, SHARED_BYTES_MIN)
    while (size < body.length) size *= 2
    if (size > this.#memory.byteLength) this.#memory = new SharedArrayBuffer(size)
    body.copy(Buffer.from(this.#memory))
    return this.#memory
  }

  #endIdle(): void {
    this.#memory = new SharedArrayBuffer(0)
    void this.#end('gone')
  }

  #allow(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#onFailure('scan_slow'), ms)
  }

  #start(): Worker {
    // The thread gets no environment, arguments or data: only this module and the bodies.
    const worker = new Worker(this.#module, {
      env: {},
      argv: [],
      execArgv: [],
      workerData: null,
      resourceLimits: HEAP,
      stdin: false,
      stdout: true,
      stderr: true,
      name: 'craik bodies',
    })
    worker.unref()
    worker.once('online', () => {
      if (this.#worker === worker && this.#current !== undefined) this.#allow(this.#limits.scanMs)
    })
    worker.on('message', (answer: ScanAnswer) => {
      if (this.#worker === worker) this.#onAnswer(answer)
    })
    const onGone = () => {
      if (this.#worker === worker) this.#onFailure('scan_failed')
    }
    worker.on('error', onGone).on('messageerror', onGone).on('exit', onGone)
    return worker
  }

  #onAnswer(answer: ScanAnswer): void {
    const job = this.#current
    this.#current = undefined
    job?.settle('fault' in answer ? answer.fault : toScanned(answer, job.body))
    this.#next()
  }

  #onFailure(fault: 'scan_slow' | 'scan_failed'): void {
    this.#failedMs.push(performance.now())
    void this.#end(fault)
    if (!this.#hasFailedTooOften()) return
    for (const { settle } of this.#waiting.splice(0)) settle('scan_failed')
  }

  /** The current body fails too. The next thread scans the waiting ones. */
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

function toScanned({ members, unpacked }: Exclude<ScanAnswer, { fault: ScanFault }>, body: Buffer): Scanned {
  return { members, bytes: unpacked === undefined ? body : Buffer.from(unpacked) }
}

/**
 * V8 collects garbage after it has allocated tens of megabytes of buffers. Chunks that are freed at once do not count.
 * This halves the collections, which are most of the cost of a call with a body of 2 MiB.
 */
function join(pieces: readonly Buffer[]): Buffer {
  if (pieces.length === 1) return pieces[0]!
  const body = Buffer.concat(pieces)
  for (const { buffer, byteLength } of pieces)
    if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
  return body
}

/** Calls `drop` when the wait is over or the last waiter is gone. Resolves to whichever happens first. */
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
