/** The HTTP/2 session over one stream to a sidecar: opens streams, asks whether it is alive, and dies with a reason. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { addAbortSignal, type Duplex } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { LIMITS, PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../sidecar/protocol.ts'
import type { CountedStream } from './boundary-counter.ts'
import { type BoundaryTimeouts, MAX_OPEN_STREAMS, MAX_UNSOLICITED } from './boundary-timeouts.ts'
import { guardPieces } from './pieces.ts'

/** What the sidecar is asked: `doing` completes the sentence "… while it was asked to …". */
export interface SidecarRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** Its parts are encoded already. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly doing: string
}

/** No name or address: the stream itself says whose it is. */
const AUTHORITY = 'http://sandbox'
const CLOSE_MS = 1_000
/** The smallest frame of a job that says something: five bytes and one. */
export const LEAST_PIECE_BYTES = 6
/** Headers of frames and the like in a second: those of a million frames, several times what a sidecar can do. */
const MAX_OVERHEAD_BYTES = 9_000_000
const WEIGH_EVERY_MS = 1_000

export class BoundaryConnection {
  readonly timeouts: BoundaryTimeouts
  /** Settles when the stream is gone, with the reason. */
  readonly closed: Promise<string>
  readonly #session: ClientHttp2Session
  readonly #stream: Duplex & CountedStream
  readonly #weighing: NodeJS.Timeout
  #failure: CraikError | undefined
  #open = 0
  #unsolicited = 0
  #payloadBytes = 0
  #pinging: NodeJS.Timeout | undefined

  constructor(stream: Duplex & CountedStream, timeouts: BoundaryTimeouts) {
    this.timeouts = timeouts
    this.#stream = stream
    this.#session = connect(AUTHORITY, {
      createConnection: () => stream,
      maxSessionMemory: LIMITS.sessionMemoryMb,
      maxHeaderListPairs: 32,
      maxReservedRemoteStreams: 0,
      maxSettings: 16,
      // Before the sidecar has said how many it takes; the default would hold streams back.
      peerMaxConcurrentStreams: MAX_OPEN_STREAMS,
      settings: {
        enablePush: false,
        initialWindowSize: LIMITS.streamWindowBytes,
        maxConcurrentStreams: 0,
        maxHeaderListSize: 16 * 1024,
      },
    })
    this.closed = new Promise((resolve) => {
      const onGone = () => {
        this.fail(new CraikError('boundary_failed', 'the connection to the sandbox was lost'))
        resolve(this.#failure!.message)
      }
      // A session waits for its streams before it closes; the socket under it does not.
      this.#session.once('close', onGone)
      stream.once('close', onGone)
    })
    this.#session.on('error', (error) => this.#onError(error))
    stream.on('error', (error) => this.#onError(error))
    this.#session.on('goaway', () =>
      this.fail(new CraikError('boundary_failed', 'the sandbox closed the connection')),
    )
    // Of the connection, not of a stream: Node gives it back as soon as it has read it, so it pins nothing.
    this.#session.once('connect', (session) => {
      if (!session.destroyed) session.setLocalWindowSize(LIMITS.copyWindowBytes)
    })
    this.#watchUnsolicited()
    this.#weighing = this.#weighOverhead()
    this.#pinging = setTimeout(() => this.#ping(), timeouts.pingEveryMs)
    this.#pinging.unref()
  }

  get failure(): CraikError | undefined {
    return this.#failure
  }

  /** A new stream with the question on it; nothing has been answered yet. Its errors are those of the line. */
  open(request: SidecarRequest, endStream: boolean): ClientHttp2Stream {
    if (this.#open >= MAX_OPEN_STREAMS) {
      throw new CraikError('limit_reached', `${MAX_OPEN_STREAMS} streams into the sandbox are already open`, {
        hint: 'close a terminal, a forward or a watch, then try again',
      })
    }
    const stream = this.#request(request, endStream)
    this.#open++
    stream.once('close', () => this.#open--)
    return stream
  }

  /** A stream that waits for the inside; how many there are is bounded by who opens them. */
  openWaiting(request: SidecarRequest): ClientHttp2Stream {
    return this.#request(request, false)
  }

  #request(request: SidecarRequest, endStream: boolean): ClientHttp2Stream {
    if (this.#failure || this.#session.destroyed) throw this.brokeOff(request.doing)
    const stream = this.#session.request(
      {
        ':method': request.method,
        ':path': pathOf(request),
        [PROTOCOL_HEADER]: String(PROTOCOL_VERSION),
      },
      { endStream },
    )
    guardPieces(
      stream,
      LEAST_PIECE_BYTES,
      () => cut(stream),
      (bytes) => {
        this.#payloadBytes += bytes
      },
    )
    // Whoever reads the stream learns of it by its end; an error without a listener would end the process.
    stream.on('error', ignore)
    let early = 0
    stream.on('headers', () => {
      if (++early > MAX_UNSOLICITED) this.fail(floods('headers'))
    })
    return stream
  }

  /** Ends the line and everything on it with this error, unless it has ended already. */
  fail(error: CraikError): void {
    if (this.#failure) return
    this.#failure = error
    clearTimeout(this.#pinging)
    clearInterval(this.#weighing)
    this.#session.destroy(undefined, constants.NGHTTP2_CANCEL)
    this.#stream.destroy()
  }

  /** Why a stream of this line is gone that had not come to its end. */
  brokeOff(doing: string): CraikError {
    const why = this.#failure?.message ?? 'the stream ended early'
    return new CraikError('boundary_failed', `cannot ${doing}: ${why}`, {
      details: { brokeOff: true },
    })
  }

  async close(): Promise<void> {
    this.fail(new CraikError('boundary_failed', 'the host closed the connection to the sandbox'))
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS)
    })
    await Promise.race([this.closed, deadline])
    clearTimeout(timer)
  }

  #onError(error: Error): void {
    const code = (error as NodeJS.ErrnoException).code ?? error.name
    this.fail(
      new CraikError('boundary_failed', `the connection to the sandbox failed (${code})`, { cause: error }),
    )
  }

  /** One unasked-for frame costs the sidecar nine bytes and the host an answer. */
  #watchUnsolicited(): void {
    const count = () => {
      if (++this.#unsolicited > MAX_UNSOLICITED) this.fail(floods('ping or settings frames'))
    }
    this.#session.on('ping', count)
    this.#session.on('remoteSettings', count)
    this.#session.on('stream', () =>
      this.fail(new CraikError('boundary_failed', 'the sandbox opened a stream without a request')),
    )
  }

  /** Frames that carry nothing cost the host time all the same, and HTTP/2 has many kinds of them. */
  #weighOverhead(): NodeJS.Timeout {
    let before = 0
    const weigh = () => {
      const overhead = this.#stream.bytesRead - this.#payloadBytes
      if (overhead - before > MAX_OVERHEAD_BYTES) this.fail(floods('empty frames'))
      before = overhead
    }
    const timer = setInterval(weigh, WEIGH_EVERY_MS)
    timer.unref()
    return timer
  }

  #ping(): void {
    this.#unsolicited = 0
    const missed = setTimeout(() => {
      // After a pause of the whole machine the answer may lie there, unread: it gets its turn first.
      setImmediate(() => setImmediate(() => answered || this.fail(silent())))
    }, this.timeouts.pingMs)
    missed.unref()
    let answered = false
    const requested = this.#session.ping((error) => {
      answered = true
      clearTimeout(missed)
      if (error || this.#failure) return
      this.#pinging = setTimeout(() => this.#ping(), this.timeouts.pingEveryMs)
      this.#pinging.unref()
    })
    if (!requested) this.fail(silent())
  }
}

/** Lets go of a stream before its end, so that the other side stops at once. */
export function cut(stream: ClientHttp2Stream): void {
  // Not `close()`: Node ends the body first, and what was cut short would arrive as if it were whole. What an abort
  // destroys is cancelled without that.
  if (!stream.destroyed) addAbortSignal(AbortSignal.abort(), stream)
}

function pathOf({ path, query }: SidecarRequest): string {
  const provided = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) provided.set(name, String(value))
  }
  return provided.size === 0 ? path : `${path}?${provided}`
}

function silent(): CraikError {
  return new CraikError('boundary_failed', 'the sandbox did not answer: its sidecar is stuck or stopped')
}

function floods(what: string): CraikError {
  return new CraikError(
    'boundary_failed',
    `the sandbox flooded the host with ${what}, so Craik disconnected it`,
  )
}

function ignore(): void {}
