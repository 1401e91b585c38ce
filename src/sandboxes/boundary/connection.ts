/** The HTTP/2 session over one stream to a sidecar. It opens streams, pings the sidecar, and ends with a reason. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { addAbortSignal, type Duplex } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { LIMITS, PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../sidecar/protocol.ts'
import type { CountedStream } from './boundary-counter.ts'
import { type BoundaryTimeouts, MAX_OPEN_STREAMS, MAX_UNSOLICITED } from './boundary-timeouts.ts'
import { guardPieces } from './pieces.ts'

/** A request to the sidecar. `doing` completes error messages such as “cannot …”. */
export interface SidecarRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** The parts of the path are already encoded. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly doing: string
}

/** The authority has no name or address, because the stream itself identifies the sandbox. */
const AUTHORITY = 'http://sandbox'
const CLOSE_MS = 1_000
/** The smallest job frame with content: a header of five bytes and one byte. */
export const LEAST_PIECE_BYTES = 6
/**
 * The limit in a second for bytes that are not payload, such as frame headers. It equals the headers of a million
 * frames, several times what a sidecar can send.
 */
const MAX_OVERHEAD_BYTES = 9_000_000
const WEIGH_EVERY_MS = 1_000

export class BoundaryConnection {
  readonly timeouts: BoundaryTimeouts
  /** Resolves with the reason when the stream is gone. */
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
      // Applies until the sidecar sends its own limit. Node's default would hold streams back.
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
      // A session waits for its streams before it closes. The socket under it does not.
      this.#session.once('close', onGone)
      stream.once('close', onGone)
    })
    this.#session.on('error', (error) => this.#onError(error))
    stream.on('error', (error) => this.#onError(error))
    this.#session.on('goaway', () =>
      this.fail(new CraikError('boundary_failed', 'the sandbox closed the connection')),
    )
    // This is the window of the connection, not of a stream. Node releases it as soon as it has read the data, so it
    // occupies no memory.
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

  /**
   * Opens a new stream and sends the request. No response has arrived yet. Errors of the stream appear as errors of the
   * connection.
   */
  open(request: SidecarRequest, endStream: boolean): ClientHttp2Stream {
    if (this.#open >= MAX_OPEN_STREAMS) {
      throw new CraikError(
        'limit_reached',
        `${MAX_OPEN_STREAMS} connections into the sandbox are already open`,
        { hint: 'close a terminal or a forwarded port, or wait until a command ends, then try again' },
      )
    }
    const stream = this.#request(request, endStream)
    this.#open++
    stream.once('close', () => this.#open--)
    return stream
  }

  /** Opens a stream that waits for a connection from the sandbox. The caller limits the number of these streams. */
  openWaiting(request: SidecarRequest): ClientHttp2Stream {
    return this.#request(request, false)
  }

  #request(request: SidecarRequest, endStream: boolean): ClientHttp2Stream {
    if (this.#failure || this.#session.destroyed) throw this.brokenStreamError(request.doing)
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
    // A reader of the stream learns of an error when the stream ends. An error without a listener would end the
    // process.
    stream.on('error', ignore)
    let early = 0
    stream.on('headers', () => {
      if (++early > MAX_UNSOLICITED) this.fail(floodError('headers'))
    })
    return stream
  }

  /** Ends the connection and all of its streams with this error, unless it has already ended. */
  fail(error: CraikError): void {
    if (this.#failure) return
    this.#failure = error
    clearTimeout(this.#pinging)
    clearInterval(this.#weighing)
    this.#session.destroy(undefined, constants.NGHTTP2_CANCEL)
    this.#stream.destroy()
  }

  /** Returns the error for a stream of this connection that ended early. */
  brokenStreamError(doing: string): CraikError {
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

  /** One unexpected frame costs the sidecar nine bytes, and the host must answer it. */
  #watchUnsolicited(): void {
    const count = () => {
      if (++this.#unsolicited > MAX_UNSOLICITED) this.fail(floodError('ping or settings frames'))
    }
    this.#session.on('ping', count)
    this.#session.on('remoteSettings', count)
    this.#session.on('stream', () =>
      this.fail(new CraikError('boundary_failed', 'the sandbox opened a stream without a request')),
    )
  }

  /** Frames without content also cost the host time, and HTTP/2 has many kinds of them. */
  #weighOverhead(): NodeJS.Timeout {
    let before = 0
    const weigh = () => {
      const overhead = this.#stream.bytesRead - this.#payloadBytes
      if (overhead - before > MAX_OVERHEAD_BYTES) this.fail(floodError('empty frames'))
      before = overhead
    }
    const timer = setInterval(weigh, WEIGH_EVERY_MS)
    timer.unref()
    return timer
  }

  #ping(): void {
    this.#unsolicited = 0
    const missed = setTimeout(() => {
      // After a pause of the whole host, the answer may have arrived but not been read. Two turns of the event loop
      // read it first.
      setImmediate(() => setImmediate(() => answered || this.fail(unresponsiveError())))
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
    if (!requested) this.fail(unresponsiveError())
  }
}

/** Cuts a stream off before its end, so that the other side stops at once. */
export function cut(stream: ClientHttp2Stream): void {
  // `close()` would end the body first, so that a truncated body would arrive as if it were complete. A stream
  // destroyed by an abort is canceled without that.
  if (!stream.destroyed) addAbortSignal(AbortSignal.abort(), stream)
}

function pathOf({ path, query }: SidecarRequest): string {
  const provided = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) provided.set(name, String(value))
  }
  return provided.size === 0 ? path : `${path}?${provided}`
}

function unresponsiveError(): CraikError {
  return new CraikError(
    'boundary_failed',
    'the sandbox did not answer: the program that runs its commands is stuck or stopped',
    { hint: 'restart the sandbox:  craik sandbox stop ID && craik sandbox resume ID' },
  )
}

function floodError(what: string): CraikError {
  return new CraikError(
    'boundary_failed',
    `the sandbox flooded the host with ${what}, so Craik disconnected it`,
  )
}

function ignore(): void {}
