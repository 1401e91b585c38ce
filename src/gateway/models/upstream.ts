/** Connections to providers: verified, kept open per login and origin, and read only as fast as the client reads. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { rootCertificates } from 'node:tls'
import { buildConnector, type Dispatcher, Pool } from 'undici'
import { CredentialMask } from '../../lib/credential-mask.ts'
import { HEADER_BYTES_MAX } from '../../providers/adapters/limits.ts'
import { dialLoopback, loopbackAgent } from '../../providers/local/dial-loopback.ts'
import { loopbackRefusal } from '../../providers/local/loopback.ts'
import type { GatewayLimits } from '../gateway-limits.ts'

export interface UpstreamOptions {
  /** Certificate authorities in addition to those of Node. */
  readonly authorities?: readonly string[]
  /** For tests: the address to dial instead of an origin. Its name is verified nevertheless. */
  readonly dialled?: (origin: string) => { readonly host: string; readonly port: number } | undefined
}

export interface UpstreamRequest {
  /** The login of the connection. Two logins never share one. */
  readonly account: string
  readonly baseUrl: string
  /** The path after the base URL, with its query. */
  readonly path: string
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | undefined
}

/** A response whose head has arrived. */
export interface UpstreamAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /**
   * Resolves to the next chunk, or to `undefined` at the end. Rejects when the connection breaks. Reads only on demand.
   */
  next(): Promise<Buffer | undefined>
  /** Discards the rest. Harmless after the end. */
  abort(): void
}

/** The reason why there is no response, or why it broke off. */
export class UpstreamError extends Error {
  /** `false` when the provider certainly received nothing. */
  readonly sent: boolean
  readonly code: string

  constructor(sent: boolean, error: unknown) {
    super('the connection to the provider broke')
    const { name, code } = error as { readonly name?: unknown; readonly code?: unknown }
    this.sent = sent
    // A parse error has a name and sometimes no code.
    const known = name === 'HTTPParserError' ? (code ?? 'HPE_INVALID') : code
    this.code = typeof known === 'string' && /^\w{1,60}$/.test(known) ? known : ''
  }
}

/** More connections than all callers together can open to one origin. */
const CONNECTIONS_MAX = 1024
/** Each chunk or event costs time, however short it is. The shortest meaningful event has ten bytes. */
const PIECES_MIN = 10_000
const PIECE_BYTES = 8
/** The most interim responses, such as `103 Early Hints`. */
const INTERIM_MAX = 16

/** Returns whether a response has too many chunks or events for its number of bytes. */
export function isTooFine(pieces: number, bytes: number): boolean {
  return pieces > PIECES_MIN && bytes < pieces * PIECE_BYTES
}

/** The number of cached masks: more than a user has logins. */
const MASKS_MAX = 32

export class Upstreams {
  readonly #options: UpstreamOptions
  readonly #limits: GatewayLimits
  readonly #pools = new Map<string, Dispatcher>()
  /** Connections outside any pool. */
  readonly #open = new Map<string, number>()
  readonly #masks = new Map<string, CredentialMask>()

  constructor(options: UpstreamOptions, limits: GatewayLimits) {
    this.#options = options
    this.#limits = limits
  }

  /**
   * Returns a mask of these credentials. Masks are cached: creating one takes longer than searching a small response.
   */
  maskOf(secrets: readonly string[]): CredentialMask {
    const key = secrets.join('\n')
    const mask = this.#masks.get(key) ?? new CredentialMask(secrets)
    // The least recently used mask is evicted first.
    this.#masks.delete(key)
    this.#masks.set(key, mask)
    if (this.#masks.size > MASKS_MAX) this.#masks.delete(this.#masks.keys().next().value!)
    return mask
  }

  /** Resolves with the head of the response. Aborting the signal ends it at any time. */
  ask(request: UpstreamRequest, signal: AbortSignal): Promise<UpstreamAnswer> {
    const url = new URL(request.baseUrl + request.path)
    const exchange = new Exchange(signal)
    this.#pool(request.account, request.baseUrl, url.origin).dispatch(
      {
        origin: url.origin,
        path: url.pathname + url.search,
        method: request.method,
        headers: request.headers,
        body: request.body ?? null,
        headersTimeout: this.#limits.answerMs,
        bodyTimeout: this.#limits.silenceMs,
      },
      exchange,
    )
    return exchange.response
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values()]
    this.#pools.clear()
    await Promise.all(pools.map((pool) => pool.destroy().catch(() => {})))
  }

  #pool(account: string, baseUrl: string, origin: string): Dispatcher {
    const key = `${account}\n${origin}`
    const known = this.#pools.get(key)
    if (known !== undefined) return known
    const pool = this.#newPool(baseUrl, origin)
    this.#pools.set(key, pool)
    return pool
  }

  /** Opens a separate connection by the same rules, for WebSocket. The caller closes it. */
  async connect(account: string, baseUrl: string, signal: AbortSignal): Promise<Socket> {
    const { origin } = new URL(baseUrl)
    const key = `${account}\n${origin}`
    const open = this.#open.get(key) ?? 0
    if (open >= CONNECTIONS_MAX) throw new UpstreamError(false, { code: 'EMFILE' })
    this.#open.set(key, open + 1)
    const free = () => this.#open.set(key, this.#open.get(key)! - 1)
    try {
      const socket = await this.#dial(baseUrl, origin)
      socket.once('close', free)
      if (!signal.aborted) return socket
      socket.destroy()
    } catch (error) {
      free()
      throw new UpstreamError(false, error)
    }
    throw new UpstreamError(false, { code: 'ABORT_ERR' })
  }

  #dial(baseUrl: string, origin: string): Promise<Socket> {
    const connector = this.#connector(baseUrl, origin)
    if (connector === undefined) return dialLoopback(baseUrl, { connectTimeoutMs: this.#limits.connectMs })
    const { protocol, host, hostname, port } = new URL(origin)
    const { promise, resolve, reject } = Promise.withResolvers<Socket>()
    connector({ protocol, host, port, hostname: hostname.replace(/^\[(.*)\]$/, '$1') }, (error, socket) =>
      socket === null ? reject(error) : resolve(socket),
    )
    return promise
  }

  #newPool(baseUrl: string, origin: string): Dispatcher {
    const connect = this.#connector(baseUrl, origin)
    if (connect === undefined) return loopbackAgent(baseUrl, { connectTimeoutMs: this.#limits.connectMs })
    return new Pool(origin, {
      allowH2: false,
      maxHeaderSize: HEADER_BYTES_MAX,
      connections: CONNECTIONS_MAX,
      pipelining: 1,
      connect,
    })
  }

  /** Returns `undefined` for a provider on this machine, which has its own way to connect. */
  #connector(baseUrl: string, origin: string): buildConnector.connector | undefined {
    const { authorities = [], dialled } = this.#options
    const isPlain = baseUrl.startsWith('http:')
    if (isPlain || (loopbackRefusal(baseUrl) === undefined && authorities.length === 0)) return undefined
    const connector = buildConnector({
      timeout: this.#limits.connectMs,
      allowH2: false,
      // Set explicitly, so that no environment variable disables it.
      rejectUnauthorized: true,
      ...(authorities.length > 0 && { ca: [...rootCertificates, ...authorities] }),
    })
    const place = dialled?.(origin)
    if (place === undefined) return connector
    const { hostname: servername } = new URL(origin)
    return (request, done) =>
      connector({ ...request, hostname: place.host, port: String(place.port), servername }, done)
  }
}

/** One request and its response, read chunk by chunk on demand. */
class Exchange implements Dispatcher.DispatchHandler, UpstreamAnswer {
  readonly #signal: AbortSignal
  readonly #begun = Promise.withResolvers<UpstreamAnswer>()
  readonly #pieces: Buffer[] = []
  #waiting: PromiseWithResolvers<Buffer | undefined> | undefined
  #controller: Dispatcher.DispatchController | undefined
  #error: UpstreamError | undefined
  #ended = false
  #interim = 0
  #pieceCount = 0
  #bytes = 0
  status = 0
  headers: IncomingHttpHeaders = {}

  constructor(signal: AbortSignal) {
    this.#signal = signal
    if (signal.aborted) this.abort()
    else signal.addEventListener('abort', this.#onAbort)
  }

  get response(): Promise<UpstreamAnswer> {
    return this.#begun.promise
  }

  readonly #onAbort = () => this.abort()

  abort(): void {
    if (this.#ended || this.#error !== undefined) return
    const error = Object.assign(new Error('cancelled'), { code: 'ABORT_ERR' })
    this.#fail(error)
    this.#controller?.abort(error)
  }

  next(): Promise<Buffer | undefined> {
    const piece = this.#pieces.shift()
    if (piece !== undefined) return Promise.resolve(piece)
    if (this.#error !== undefined) return Promise.reject(this.#error)
    if (this.#ended) return Promise.resolve(undefined)
    const waiting = Promise.withResolvers<Buffer | undefined>()
    this.#waiting = waiting
    // `resume` can deliver the next chunk at once.
    this.#controller?.resume()
    return waiting.promise
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // The call was aborted while connecting, so nothing is sent.
    if (this.#error !== undefined) controller.abort(this.#error)
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status < 200) {
      if (++this.#interim > INTERIM_MAX) this.#giveUp(controller)
      return
    }
    controller.pause()
    this.status = status
    this.headers = headers
    this.#begun.resolve(this)
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Buffer): void {
    // An empty chunk comes from a parser flush, which reports no end. A pause for it would never be resumed.
    if (piece.length === 0) return
    this.#pieceCount++
    this.#bytes += piece.length
    if (isTooFine(this.#pieceCount, this.#bytes)) {
      this.#giveUp(controller)
      return
    }
    const waiting = this.#waiting
    this.#waiting = undefined
    if (waiting === undefined) this.#pieces.push(piece)
    else waiting.resolve(piece)
    controller.pause()
  }

  #giveUp(controller: Dispatcher.DispatchController): void {
    const error = Object.assign(new Error('too many small pieces'), { code: 'TOO_MANY_PIECES' })
    this.#fail(error)
    controller.abort(error)
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#waiting?.resolve(undefined)
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error)
  }

  #fail(error: Error): void {
    if (this.#error !== undefined || this.#ended) return
    this.#error = new UpstreamError(this.#controller !== undefined, error)
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#begun.reject(this.#error)
    this.#waiting?.reject(this.#error)
    this.#pieces.length = 0
  }
}
