/** A WebSocket to a provider: over a verified connection of its own, opened with the credential of one login. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { WebSocket } from 'ws'
import type { CredentialMask } from '../../../lib/credential-mask.ts'
import { EVENT_CHARS_MAX, HEADER_BYTES_MAX } from '../../../providers/adapters/limits.ts'
import { type GatewayLimits, MESSAGE_BYTES_MAX } from '../../limits.ts'
import { headersUp } from '../headers.ts'
import type { CallCredential, Login } from '../login.ts'
import { UpstreamError, type Upstreams } from '../upstream.ts'
import { closesWithin, keepAlive } from './keep-alive.ts'

/** Who hears what comes. */
export interface SocketListener {
  message(data: Buffer, isBinary: boolean): void
  /** Nothing follows. */
  closed(): void
}

/** It answered the upgrade with something else. */
export interface UpgradeRefusal {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface UpgradeRequest {
  readonly login: Login
  readonly held: CallCredential | undefined
  /** Of this credential, and of the one that was not accepted before it. */
  readonly mask: CredentialMask
  /** After the base URL, with its query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Told of faults of ours. */
  readonly report: (error: unknown) => void
}

/** What may wait to be read by a provider before its pings are ignored. */
const PONG_BYTES_MAX = 64 * 1024

export class UpstreamSocket {
  readonly #socket: WebSocket
  readonly #raw: Socket
  readonly #login: Login
  readonly held: CallCredential | undefined
  /** For all that it says. */
  readonly mask: CredentialMask
  /** Of its answer to the upgrade. */
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
    // A provider that pings and does not read gets no more than this in memory.
    socket.on('ping', (data: Buffer) => socket.bufferedAmount < PONG_BYTES_MAX && socket.pong(data))
    socket.once('close', () => this.listener?.closed())
  }

  /** No message of a provider ends more than its own connection. */
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

  /** Whether a call with this login and credential may go over it. */
  isFor({ ref, baseUrl }: Login, held: CallCredential | undefined): boolean {
    const isSameLogin = ref === this.#login.ref && baseUrl === this.#login.baseUrl
    return isSameLogin && held?.generation === this.held?.generation && held?.secret === this.held?.secret
  }

  send(message: Buffer): void {
    this.#socket.send(message, { binary: false }, () => {})
  }

  /** Nothing is read, until it goes on. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** Harmless when it is gone. Its listener hears nothing more. */
  end(): void {
    this.listener = undefined
    this.#socket.terminate()
  }
}

/** Rejects with an `UpstreamError` where there is no answer. */
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
  const given = AbortSignal.any([until, deadline])
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamSocket | UpgradeRefusal>()
  const fail = (error: unknown) => {
    reject(new UpstreamError(true, error))
    raw.destroy()
  }
  const onAbort = () =>
    fail(Object.assign(new Error('given up'), { code: deadline.aborted ? 'UND_ERR_HEADERS_TIMEOUT' : '' }))
  given.addEventListener('abort', onAbort, { once: true })
  const socket = new WebSocket(`${login.baseUrl.replace(/^http/, 'ws')}${path}`, {
    headers: sent,
    createConnection: () => raw,
    followRedirects: false,
    perMessageDeflate: false,
    autoPong: false,
    // One message a turn of the event loop, however many come at once.
    allowSynchronousEvents: false,
    maxPayload: EVENT_CHARS_MAX,
    maxHeaderSize: HEADER_BYTES_MAX,
    ...closesWithin(limits.connectMs),
  })
  if (given.aborted) onAbort()
  let upgraded: IncomingHttpHeaders = {}
  socket.on('error', fail)
  socket.once('upgrade', (answer) => {
    upgraded = answer.headers
  })
  socket.once('unexpected-response', (_request, answer) => {
    gathered(answer).then(
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
    given.removeEventListener('abort', onAbort)
  }
}

/** As much as is looked at of a refusal in its own words. */
async function gathered(answer: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of answer) {
    bytes += (piece as Buffer).length
    if (bytes > MESSAGE_BYTES_MAX) break
    pieces.push(piece as Buffer)
  }
  return Buffer.concat(pieces)
}
