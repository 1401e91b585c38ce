/** What the host holds of one running sandbox: where its sidecar dials in, the boundary of now, and what it counted. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { DialledStream, InstanceConnection, SandboxInstance } from '../backend.ts'
import type { Boundary, BoundaryCounts, InboundHandler } from '../boundary/boundary.ts'
import { connectBoundary } from '../boundary/connect.ts'
import { BoundaryCounter } from '../boundary/counts.ts'
import { type HostSocket, openHostSocket } from '../boundary/listen.ts'
import type { EventLog } from './events.ts'

/** How long an operation waits for a sidecar that has lost its connection: it redials at least once a second. */
const RECONNECT_MS = 5_000
/** Streams of callers, so that what they hold of the host's memory is bounded. */
const STREAMS = 512
const TICK_MS = 1_000
/** Streams that broke with the boundary are at their end well before. */
const QUIET_MS = 2_000
/** Between two dials; short again after a connection that lived. */
const MIN_PAUSE_MS = 10
const MAX_PAUSE_MS = 1_000
const GOOD_AFTER_MS = 2_000

export interface SessionParts {
  readonly id: SandboxId
  /** One per process that holds the sandbox. */
  readonly epoch: string
  readonly events: EventLog
  /** `dial`: nothing is listened on; the place says how it is dialled. */
  readonly line: Extract<InstanceConnection, { kind: 'socket' }> | { readonly kind: 'dial' }
  readonly inbound: InboundHandler
  /** Called once per connection, before any operation uses it. */
  readonly onConnected: (boundary: Boundary) => Promise<void>
  /** About once a second: counts are saved, jobs looked after. */
  readonly onTick: (boundary: Boundary | undefined) => Promise<void>
}

export class BoundarySession {
  readonly id: SandboxId
  readonly epoch: string
  readonly events: EventLog
  /** Set once it runs. */
  place: SandboxInstance | undefined
  /** Why the last connection came to nothing. */
  refusal: CraikError | undefined
  readonly #parts: SessionParts
  readonly #counter = new BoundaryCounter()
  #countedBefore: BoundaryCounts | undefined
  readonly #waiting = new Set<(boundary: Boundary) => void>()
  readonly #closing = new AbortController()
  #socket: HostSocket | undefined
  /** Of the connection that came last, until it is lost; it is `#boundary` once it is ready for operations. */
  #newest: Boundary | undefined
  #boundary: Boundary | undefined
  #closed: Promise<void> | undefined
  #streams = 0
  #uses = 0
  readonly #ends = new Set<Promise<unknown>>()
  #idle: (() => void) | undefined
  #ticking: Promise<void> | undefined
  #dialling: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  private constructor(parts: SessionParts) {
    this.id = parts.id
    this.epoch = parts.epoch
    this.events = parts.events
    this.#parts = parts
  }

  /** Listens before anything is started that could dial. */
  static async open(parts: SessionParts): Promise<BoundarySession> {
    const session = new BoundarySession(parts)
    if (parts.line.kind === 'socket') {
      session.#socket = await openHostSocket(parts.line.folder, {
        onConnection: (stream) => void session.#accept(stream),
        onRefused: (connections) =>
          parts.events.add('refused', {
            message: `${connections} more connection${connections === 1 ? '' : 's'} to the host’s socket`,
          }),
      })
    }
    session.#timer = setInterval(() => session.#tick(), TICK_MS).unref()
    return session
  }

  /** Of a place that is dialled by the host: one connection at a time, another whenever it is lost. */
  keepDialling(dial: (until: AbortSignal) => Promise<DialledStream>): void {
    this.#dialling ??= this.#dialOn(dial)
  }

  get connected(): boolean {
    return this.#boundary !== undefined
  }

  /** Streams of callers that are open. */
  get streams(): number {
    return this.#streams
  }

  /** How often a caller has reached in. */
  get uses(): number {
    return this.#uses
  }

  /** Aborts when the session ends. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  counts(): BoundaryCounts {
    const counts = this.#counter.read()
    const before = this.#countedBefore
    if (before === undefined) return counts
    const names = Object.keys(counts) as (keyof BoundaryCounts)[]
    return Object.fromEntries(names.map((name) => [name, counts[name] - before[name]])) as never
  }

  /** What crossed before was nobody's. */
  countFromNow(): void {
    this.#countedBefore = this.#counter.read()
  }

  /** The boundary of now, or the next one if it comes in time. */
  boundary(until: AbortSignal, patienceMs = RECONNECT_MS): Promise<Boundary> {
    if (this.closing.aborted) return Promise.reject(stopped(this.id))
    if (this.#boundary !== undefined) return Promise.resolve(this.#boundary)
    return new Promise((resolve, reject) => {
      const settle = () => {
        clearTimeout(timer)
        this.#waiting.delete(take)
        until.removeEventListener('abort', leave)
        this.closing.removeEventListener('abort', end)
      }
      const take = (boundary: Boundary) => {
        settle()
        resolve(boundary)
      }
      const fail = (error: unknown) => {
        settle()
        reject(error)
      }
      const leave = () => fail(until.reason ?? new CraikError('interrupted', 'the caller stopped waiting'))
      const end = () => fail(stopped(this.id))
      const late = () => fail(this.refusal ?? notConnected(this.id))
      const timer = setTimeout(late, patienceMs)
      this.#waiting.add(take)
      until.addEventListener('abort', leave)
      this.closing.addEventListener('abort', end)
      if (until.aborted) leave()
    })
  }

  /** One of the streams that callers may have open at a time. Hand it back by calling what is returned. */
  hold(): () => void {
    if (this.closing.aborted) throw stopped(this.id)
    if (this.#streams >= STREAMS) {
      throw new CraikError('limit_reached', `sandbox ${this.id} already has ${STREAMS} open streams`, {
        hint: 'close a terminal, a forward or a watch, then try again',
      })
    }
    this.#streams++
    this.#uses++
    let held = true
    return () => {
      if (held) this.#streams--
      held = false
      if (this.#streams === 0) this.#idle?.()
    }
  }

  /** The end of an operation that is being written: nothing is final before. */
  ending(end: Promise<unknown>): void {
    this.#ends.add(end)
    void end.finally(() => this.#ends.delete(end))
  }

  /** The sandbox itself goes on; its sidecar dials until somebody listens again. Whoever asks waits for all of it. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#closing.abort(stopped(this.id))
    clearInterval(this.#timer)
    await this.#boundary?.close()
    await this.#socket?.close()
    await this.#dialling
    await this.#ticking
    await this.#quiet()
  }

  /** Every stream is let go of, and how it ended is written. */
  async #quiet(): Promise<void> {
    if (this.#streams > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, QUIET_MS)
        this.#idle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    // What a stream's end sets off begins in the same turn.
    await new Promise((resolve) => setImmediate(resolve))
    await Promise.all(this.#ends)
  }

  async #dialOn(dial: (until: AbortSignal) => Promise<DialledStream>): Promise<void> {
    let pauseMs = MIN_PAUSE_MS
    while (!this.closing.aborted) {
      const since = performance.now()
      try {
        const stream = await dial(this.closing)
        const gone = new Promise<void>((resolve) => stream.once('close', resolve))
        stream.on('error', () => {})
        await this.#accept(stream)
        await gone
      } catch (error) {
        if (this.closing.aborted) return
        this.refusal = asRefusal(error)
      }
      if (performance.now() - since > GOOD_AFTER_MS) pauseMs = MIN_PAUSE_MS
      await sleep(pauseMs, undefined, { signal: this.closing }).catch(() => {})
      pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)
    }
  }

  async #accept(stream: DialledStream): Promise<void> {
    try {
      const boundary = await connectBoundary(stream, this.closing, {
        counter: this.#counter,
        onInbound: this.#parts.inbound,
      })
      this.refusal = undefined
      if (this.closing.aborted) {
        await boundary.close()
        return
      }
      this.events.add('connected')
      this.#newest = boundary
      void boundary.closed.then((why) => {
        if (this.#newest === boundary) this.#newest = undefined
        if (this.#boundary === boundary) this.#boundary = undefined
        this.events.add('disconnected', { message: why })
      })
      await this.#parts.onConnected(boundary)
      // It may be lost by now, and another one be there.
      if (this.#newest !== boundary) return
      this.#boundary = boundary
      for (const take of [...this.#waiting]) take(boundary)
    } catch (error) {
      stream.destroy()
      if (this.closing.aborted) return
      this.refusal = asRefusal(error)
      this.events.add('refused', { message: this.refusal.message })
    }
  }

  /** One at a time: a slow disk or sidecar makes them rarer, never more. */
  #tick(): void {
    this.#ticking ??= this.#parts.onTick(this.#boundary).finally(() => {
      this.#ticking = undefined
    })
  }
}

function asRefusal(error: unknown): CraikError {
  if (error instanceof CraikError) return error
  return new CraikError('boundary_failed', 'could not connect to the sidecar', { cause: error })
}

function stopped(id: SandboxId): CraikError {
  return new CraikError('sandbox_stopped', `sandbox ${id} is no longer active in this supervisor`)
}

function notConnected(id: SandboxId): CraikError {
  return new CraikError('boundary_failed', `sandbox ${id} does not answer: its sidecar is not connected`, {
    hint: `see what happened:  craik sandbox logs ${id}`,
  })
}
