/** The host's end of one running sandbox: the listener for its sidecar, the current boundary, and the counts. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { DialledStream, InstanceConnection, SandboxInstance } from '../backend.ts'
import type { Boundary, BoundaryCounts, InboundHandler } from '../boundary/boundary.ts'
import { BoundaryCounter } from '../boundary/boundary-counter.ts'
import { connectBoundary } from '../boundary/connect-boundary.ts'
import { type HostSocket, openHostSocket } from '../boundary/host-socket.ts'
import type { EventLog } from './event-log.ts'

/** How long an operation waits for a sidecar that lost its connection. A sidecar redials at least once a second. */
const RECONNECT_MS = 5_000
/** The limit of open streams of callers. It bounds the memory of the host that they use. */
const STREAMS = 512
const TICK_MS = 1_000
/** The timeout for streams that broke with the boundary. They end well before it. */
const QUIET_MS = 2_000
/** The first pause between two dials. It also follows a connection that lasted. */
const MIN_PAUSE_MS = 10
const MAX_PAUSE_MS = 1_000
const GOOD_AFTER_MS = 2_000

export interface SessionParts {
  readonly id: SandboxId
  /** One epoch per process that manages the sandbox. */
  readonly epoch: string
  readonly events: EventLog
  /** `dial`: the session does not listen; the instance says how to dial it. */
  readonly line: Extract<InstanceConnection, { kind: 'socket' }> | { readonly kind: 'dial' }
  readonly inbound: InboundHandler
  /** Called once per connection, before any operation uses it. */
  readonly onConnected: (boundary: Boundary) => Promise<void>
  /** Called about once a second, to save the counts and to check the jobs. */
  readonly onTick: (boundary: Boundary | undefined) => Promise<void>
}

export class BoundarySession {
  readonly id: SandboxId
  readonly epoch: string
  readonly events: EventLog
  /** Set once the instance runs. */
  instance: SandboxInstance | undefined
  /** The reason why the last connection failed. */
  refusal: CraikError | undefined
  readonly #parts: SessionParts
  readonly #counter = new BoundaryCounter()
  #countedBefore: BoundaryCounts | undefined
  readonly #waiting = new Set<(boundary: Boundary) => void>()
  readonly #closing = new AbortController()
  #socket: HostSocket | undefined
  /** The newest connection, until it is lost. It becomes `#boundary` once it is ready for operations. */
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

  /** Starts to listen before anything runs that could dial. */
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

  /** Keeps one connection to an instance that the host dials, and dials again when it is lost. */
  keepDialling(dial: (until: AbortSignal) => Promise<DialledStream>): void {
    this.#dialling ??= this.#dialOn(dial)
  }

  get isConnected(): boolean {
    return this.#boundary !== undefined
  }

  /** The number of open streams of callers. */
  get streams(): number {
    return this.#streams
  }

  /** How often callers have opened a stream. */
  get uses(): number {
    return this.#uses
  }

  /** Aborts when the session closes. */
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

  /** Excludes earlier counts: they belong to no sandbox. */
  countFromNow(): void {
    this.#countedBefore = this.#counter.read()
  }

  /** Returns the current boundary, or the next one if it connects in time. */
  boundary(until: AbortSignal, timeoutMs = RECONNECT_MS): Promise<Boundary> {
    if (this.closing.aborted) return Promise.reject(notActiveError(this.id))
    if (this.#boundary !== undefined) return Promise.resolve(this.#boundary)
    return new Promise((resolve, reject) => {
      const settle = () => {
        clearTimeout(timer)
        this.#waiting.delete(take)
        until.removeEventListener('abort', release)
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
      const release = () => fail(until.reason ?? new CraikError('interrupted', 'the caller stopped waiting'))
      const end = () => fail(notActiveError(this.id))
      const onTimeout = () => fail(this.refusal ?? notConnected(this.id))
      const timer = setTimeout(onTimeout, timeoutMs)
      this.#waiting.add(take)
      until.addEventListener('abort', release)
      this.closing.addEventListener('abort', end)
      if (until.aborted) release()
    })
  }

  /** Reserves one of the streams that callers may have open at a time. Call the returned function to release it. */
  hold(): () => void {
    if (this.closing.aborted) throw notActiveError(this.id)
    if (this.#streams >= STREAMS) {
      throw new CraikError('limit_reached', `sandbox ${this.id} already has ${STREAMS} open connections`, {
        hint: 'close a terminal or a forwarded port, or wait until a command ends, then try again',
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

  /** Registers the end of an operation that is being written. `close` waits for it. */
  waitBeforeClose(end: Promise<unknown>): void {
    this.#ends.add(end)
    void end.finally(() => this.#ends.delete(end))
  }

  /**
   * Closes the session but not the sandbox, whose sidecar dials until a process listens again. Every caller waits for
   * all of it.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#closing.abort(notActiveError(this.id))
    clearInterval(this.#timer)
    await this.#boundary?.close()
    await this.#socket?.close()
    await this.#dialling
    await this.#ticking
    await this.#quiet()
  }

  /** Waits until every stream is released and its end is written. */
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
    // The work that follows a stream's end begins in the same turn.
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
      // The connection may be lost by now, and another one may have replaced it.
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

  /** Runs one tick at a time: a slow disk or sidecar makes ticks rarer. */
  #tick(): void {
    this.#ticking ??= this.#parts.onTick(this.#boundary).finally(() => {
      this.#ticking = undefined
    })
  }
}

function asRefusal(error: unknown): CraikError {
  if (error instanceof CraikError) return error
  return new CraikError('boundary_failed', 'cannot connect to the program that runs the sandbox’s commands', {
    cause: error,
  })
}

function notActiveError(id: SandboxId): CraikError {
  return new CraikError('sandbox_stopped', `sandbox ${id} no longer runs under this supervisor`, {
    hint: `show the sandbox:  craik sandbox show ${id}`,
  })
}

function notConnected(id: SandboxId): CraikError {
  return new CraikError(
    'boundary_failed',
    `sandbox ${id} does not answer: the program that runs its commands is not connected`,
    { hint: `see what happened:  craik sandbox logs ${id}` },
  )
}
