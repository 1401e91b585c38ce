/**
 * The sidecar's end of one HTTP/2 connection: finds the route of each request, and answers with an error when it fails.
 */
import {
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Duplex } from 'node:stream'
import { WriteBehind } from '../lib/write-behind.ts'
import { LIMITS, PROTOCOL_HEADER, PROTOCOL_VERSION } from './protocol.ts'
import { isBrokenOff, type RouteCall, type Router, SidecarError } from './router.ts'

/**
 * The limit of simultaneous streams: every job with its output and input, every forwarded connection, and the accept
 * streams.
 */
const MAX_STREAMS = 4096

/** A host that disconnects cancels all of its streams at once. That is not an attack. */
const STREAM_RESETS = 1_000_000

/** Serves one connection until it is closed. */
export function serve(socket: Duplex, router: Router, log: (line: string) => void): ServerHttp2Session {
  const session = performServerHandshake(new WriteBehind(socket, LIMITS.waitingBytes), {
    settings: {
      enablePush: false,
      initialWindowSize: LIMITS.streamWindowBytes,
      maxConcurrentStreams: MAX_STREAMS,
    },
    maxSessionMemory: LIMITS.sessionMemoryMb,
    streamResetBurst: STREAM_RESETS,
    streamResetRate: STREAM_RESETS,
  })
  session.setLocalWindowSize(LIMITS.copyWindowBytes)
  session.on('error', (error) => log(`the connection broke: ${error.message}`))
  session.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    void dispatch(router, stream, headers, log)
  })
  return session
}

async function dispatch(
  router: Router,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  log: (line: string) => void,
): Promise<void> {
  const closed = new AbortController()
  // Abort with a reason, because without one Node creates an error with its stack for every stream.
  stream.once('close', () => closed.abort('closed'))
  try {
    if (headers[PROTOCOL_HEADER] !== String(PROTOCOL_VERSION))
      throw new SidecarError('protocol', `this sandbox supports only protocol version ${PROTOCOL_VERSION}`)
    const [path = '', query = ''] = (headers[':path'] ?? '').split(/\?(.*)/s)
    const { route, params } = router.find(headers[':method'] ?? '', path)
    await route.handle(new StreamCall(stream, headers, params, new URLSearchParams(query), closed.signal))
  } catch (error) {
    if (closed.signal.aborted) return
    const known = error instanceof SidecarError ? error : undefined
    if (!known) log(`${headers[':method']} failed: ${error instanceof Error ? error.stack : String(error)}`)
    const code = known?.code ?? 'internal'
    const message =
      known?.message ?? (error instanceof Error ? error.message : 'internal error in the sidecar')
    if (stream.headersSent) stream.close(constants.NGHTTP2_INTERNAL_ERROR)
    else answerJson(stream, known?.status ?? 500, { code, message, offset: known?.offset })
  }
}

class StreamCall implements RouteCall {
  readonly stream: ServerHttp2Stream
  readonly headers: IncomingHttpHeaders
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly signal: AbortSignal

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    params: Readonly<Record<string, string>>,
    query: URLSearchParams,
    signal: AbortSignal,
  ) {
    this.stream = stream
    this.headers = headers
    this.params = params
    this.query = query
    this.signal = signal
  }

  async json(): Promise<unknown> {
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of this.stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > LIMITS.jsonBytes)
        throw new SidecarError('too_large', `the request body is larger than ${LIMITS.jsonBytes} bytes`)
      chunks.push(chunk)
    }
    if (isBrokenOff(this.stream)) throw new SidecarError('usage', 'the request body ended early')
    try {
      return JSON.parse(Buffer.concat(chunks).toString('utf8'))
    } catch {
      throw new SidecarError('usage', 'the request body is not valid JSON')
    }
  }

  answer(status: number, value: unknown): void {
    answerJson(this.stream, status, value)
  }

  respond(status: number, headers: OutgoingHttpHeaders = {}): boolean {
    if (isGone(this.stream)) return false
    this.stream.respond({ ...headers, ':status': status })
    return true
  }
}

function answerJson(stream: ServerHttp2Stream, status: number, value: unknown): void {
  if (isGone(stream)) return
  const body = Buffer.from(JSON.stringify(value))
  stream.respond({ ':status': status, 'content-type': 'application/json', 'content-length': body.length })
  stream.end(body)
  // The rest of the request's body is read and dropped. If it stayed unread, it would keep the stream half open.
  stream.resume()
}

function isGone(stream: ServerHttp2Stream): boolean {
  return stream.closed || stream.destroyed || stream.headersSent || stream.aborted
}
