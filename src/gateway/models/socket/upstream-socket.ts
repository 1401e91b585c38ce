/** A WebSocket to a provider over its own verified connection, opened with the credential of one login. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { WebSocket } from 'ws'
import type { CredentialMask } from '../../../lib/credential-mask.ts'
import { EVENT_CHARS_MAX, HEADER_BYTES_MAX } from '../../../providers/adapters/limits.ts'
import { type GatewayLimits, MESSAGE_BYTES_MAX } from '../../gateway-limits.ts'
import type { CallCredential, Login } from '../choose-login.ts'
import { headersUp } from '../model-headers.ts'
import { UpstreamError, type Upstreams } from '../upstream.ts'
import { closesWithin, keepAlive } from './keep-alive.ts'

/** Receives the messages and the close of the connection. */
export interface SocketListener {
  message(data: Buffer, isBinary: boolean): void
  /** Called when the connection has closed. */
  onClosed(): void
}

/** The provider's response when it refuses the upgrade. */
export interface UpgradeRefusal {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface UpgradeRequest {
  readonly login: Login
  readonly held: CallCredential | undefined
  /** Masks this credential and the rejected one before it. */
  readonly mask: CredentialMask
  /** The path after the base URL, with its query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Reports internal errors. */
  readonly report: (error: unknown) => void
}

/** The most unsent bytes before a provider's pings are ignored. */
const PONG_BYTES_MAX = 64 * 1024

export class UpstreamSocket {
  readonly #socket: WebSocket
  readonly #raw: Socket
  readonly #login: Login
  readonly held: CallCredential | undefined
  /** Masks all messages of the provider. */
  readonly mask: CredentialMask
  /** The headers of the response to the upgrade. */
  readonly headers: IncomingHttpHeaders
  readonly #report: (error: unknown) => void
  listener: SocketListener | undefined

  constructor(socket: WebSocket, raw: Socket, request: UpgradeRequest, headers: IncomingHttpHeaders) {
    this.#socket = socket
    this.#raw = raw
    this.#login = request.login
    this.held = request.held
    this.mask = request.mask
    this.headers = headers
    this.#report = request.report
    socket.on('message', (data: Buffer, isBinary) => this.#hear(data, isBinary))
    // Limits the memory for a provider that pings and does not read.
    socket.on('ping', (data: Buffer) => socket.bufferedAmount < PONG_BYTES_MAX && socket.pong(data))
    socket.once('close', () => this.listener?.onClosed())
  }

  /** A faulty message can end only its own connection. */
  #hear(data: Buffer, isBinary: boolean): void {
    try {
      this.listener?.message(data, isBinary)
    } catch (error) {
      this.#report(error)
      this.#socket.terminate()
    }
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN && !this.#raw.destroyed
  }

  /** Returns whether a call with this login and credential can use this connection. */
  isFor({ ref, baseUrl }: Login, held: CallCredential | undefined): boolean {
    const isSameLogin = ref === this.#login.ref && baseUrl === this.#login.baseUrl
    return isSameLogin && held?.generation === this.held?.generation && held?.secret === this.held?.secret
  }

  send(message: Buffer): void {
    this.#socket.send(message, { binary: false }, () => {})
  }

  /** Stops reading until `resume`. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** Closes the connection, and detaches its listener. Harmless when it is already closed. */
  end(): void {
    this.listener = undefined
    this.#socket.terminate()
  }
}

/** Rejects with an `UpstreamError` when there is no response. */
export async function openUpstream(
  upstreams: Upstreams,
  limits: GatewayLimits,
  request: UpgradeRequest,
  until: AbortSignal,
): Promise<UpstreamSocket | UpgradeRefusal> {
  const { login, held, path, headers } = request
  const raw = await upstreams.connect(login.ref ?? '', login.baseUrl, until)
  const { 'content-type': _, ...sent } = headersUp(headers, held)
  const deadline = AbortSignal.timeout(limits.connectMs)
  const provided = AbortSignal.any([until, deadline])
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamSocket | UpgradeRefusal>()
  const fail = (error: unknown) => {
    reject(new UpstreamError(true, error))
    raw.destroy()
  }
  const onAbort = () =>
    fail(Object.assign(new Error('given up'), { code: deadline.aborted ? 'UND_ERR_HEADERS_TIMEOUT' : '' }))
  provided.addEventListener('abort', onAbort, { once: true })
  const socket = new WebSocket(`${login.baseUrl.replace(/^http/, 'ws')}${path}`, {
    headers: sent,
    createConnection: () => raw,
    followRedirects: false,
    perMessageDeflate: false,
    autoPong: false,
    // Delivers one message per turn of the event loop.
    allowSynchronousEvents: false,
    maxPayload: EVENT_CHARS_MAX,
    maxHeaderSize: HEADER_BYTES_MAX,
    ...closesWithin(limits.connectMs),
  })
  if (provided.aborted) onAbort()
  let upgraded: IncomingHttpHeaders = {}
  socket.on('error', fail)
  socket.once('upgrade', (answer) => {
    upgraded = answer.headers
  })
  socket.once('unexpected-response', (_request, answer) => {
    collectBody(answer).then(
      (body) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body }),
      fail,
    )
  })
  socket.once('open', () => {
    keepAlive(socket, raw, limits.pingMs)
    resolve(new UpstreamSocket(socket, raw, request, upgraded))
  })
  try {
    const opened = await promise
    if (!(opened instanceof UpstreamSocket)) raw.destroy()
    return opened
  } finally {
    provided.removeEventListener('abort', onAbort)
  }
}

/** Reads at most as much of an error body as the gateway uses. */
async function collectBody(answer: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of answer) {
    bytes += (piece as Buffer).length
    if (bytes > MESSAGE_BYTES_MAX) break
    pieces.push(piece as Buffer)
  }
  return Buffer.concat(pieces)
}
