/**
 * The gateway server: an HTTP server without a listening port. It gets streams together with their caller. Requests in
 * origin form are for models, those in proxy form for the web, and everything else is refused.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import type { GatewayCaller } from './caller.ts'
import { GATEWAY_LIMITS, type GatewayLimits, HEAD_BYTES_MAX, HEADERS_MAX } from './gateway-limits.ts'
import { BodyScanner } from './models/body-scanner.ts'
import { createModels, type ModelsOptions } from './models/models.ts'
import { answerRaw, answerUnread, expectsContinue } from './raw-response.ts'

/** Handles proxy requests. Without it, they are refused. */
export interface EgressHandler {
  handleConnect(caller: GatewayCaller, request: IncomingMessage, socket: Duplex, head: Buffer): void
  handlePlain(caller: GatewayCaller, request: IncomingMessage, response: ServerResponse): void
  handleUpgrade(caller: GatewayCaller, request: IncomingMessage, socket: Duplex): void
  handleMalformed(caller: GatewayCaller, error: Error, socket: Duplex): void
}

export interface GatewayOptions extends ModelsOptions {
  readonly egress?: EgressHandler
  /** Handles other routes, such as git's. Returns `true` if it responds. */
  readonly otherRoute?: (caller: GatewayCaller, request: IncomingMessage, response: ServerResponse) => boolean
  /** For tests. */
  readonly limits?: Partial<GatewayLimits>
  /** For tests: another module for the scan threads. */
  readonly scanWorker?: URL
}

/** The reason why a request is not authorized, for connections that do not identify their caller. */
interface AuthRefusal {
  readonly status: 401 | 403 | 407
  readonly why: string
}

export type AuthCheck = (request: IncomingMessage) => AuthRefusal | undefined

export interface Gateway {
  /** Serves a connection. `check` authorizes each request on it. */
  handle(stream: Duplex, caller: GatewayCaller, check?: AuthCheck): void
  /** Ends every connection, and resolves when all calls are settled. */
  close(): Promise<void>
}

/** The load that all connections of one caller share. */
interface CallerUsage {
  connections: number
  requests: number
  heldBytes: number
  readonly scanner: BodyScanner
  /** Set when the last client has disconnected. */
  leaving: NodeJS.Timeout | undefined
}

interface Connection {
  readonly caller: GatewayCaller
  readonly load: CallerUsage
  readonly check: AuthCheck | undefined
  timer: NodeJS.Timeout | undefined
}

export function createGateway(options: GatewayOptions): Gateway {
  // By default, V8 collects the whole heap whenever buffers pass 64 MB, which 2 MiB bodies do all the time. That cost a
  // third of a call.
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  return new GatewayServer(options)
}

class GatewayServer implements Gateway {
  readonly #options: GatewayOptions
  readonly #limits: GatewayLimits
  readonly #models: ReturnType<typeof createModels>
  readonly #server: Server
  readonly #connections = new Map<Duplex, Connection>()
  readonly #usage = new Map<string, CallerUsage>()
  #closed: Promise<void> | undefined

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#limits = { ...GATEWAY_LIMITS, ...options.limits }
    this.#models = createModels(options, this.#limits)
    this.#server = createServer(
      { maxHeaderSize: HEAD_BYTES_MAX, insecureHTTPParser: false, requireHostHeader: true, keepAlive: false },
      (request, response) => this.#request(request, response),
    )
    this.#server.maxHeadersCount = HEADERS_MAX
    this.#server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#connect(request, socket, head),
    )
    // Such a client is checked before it gets 100 Continue. Without this listener, Node sends it at once.
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
      this.#request(request, response),
    )
    // The timeout depends on the request: see the timers here and in each route.
    this.#server.requestTimeout = 0
    this.#server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#upgrade(request, socket, head),
    )
    this.#server.on('clientError', (error: Error, socket: Duplex) => this.#onMalformed(error, socket))
  }

  handle(stream: Duplex, caller: GatewayCaller, check?: AuthCheck): void {
    stream.on('error', () => {})
    const key = caller.sandboxId ?? `operator ${caller.operator}`
    const load = this.#usage.get(key) ?? this.#newLoad()
    if (this.#closed !== undefined || load.connections >= this.#limits.connections) {
      answerRaw(stream, '503 Service Unavailable', 'too many connections at once, or the gateway is closing')
      return
    }
    this.#usage.set(key, load)
    clearTimeout(load.leaving)
    load.connections++
    const connection: Connection = { caller, load, check, timer: undefined }
    this.#connections.set(stream, connection)
    stream.once('close', () => {
      clearTimeout(connection.timer)
      this.#connections.delete(stream)
      // The requests of a connection end before it closes, or with it.
      if (--load.connections === 0) this.#scheduleRemoval(key, load)
    })
    this.#awaitHead(stream, connection)
    this.#server.emit('connection', stream)
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  #newLoad(): CallerUsage {
    const scanner = new BodyScanner(this.#limits, this.#options.scanWorker)
    return { connections: 0, requests: 0, heldBytes: 0, scanner, leaving: undefined }
  }

  /** The scan thread is kept for a while, for programs that connect for each request. */
  #scheduleRemoval(key: string, load: CallerUsage): void {
    load.scanner.abandon()
    load.leaving = setTimeout(() => {
      this.#usage.delete(key)
      void load.scanner.close()
    }, this.#limits.scanIdleMs).unref()
  }

  async #close(): Promise<void> {
    await this.#models.close()
    for (const stream of this.#connections.keys()) stream.destroy()
    this.#server.close()
    await Promise.all([...this.#usage.values()].map(({ scanner }) => scanner.close()))
  }

  /** Disconnects a client that sends its head too slowly, or sends no further request. */
  #awaitHead(stream: Duplex, connection: Connection): void {
    clearTimeout(connection.timer)
    connection.timer = setTimeout(() => stream.destroy(), this.#limits.headMs).unref()
  }

  #request(request: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connections.get(request.socket)
    if (connection === undefined) {
      response.destroy()
      return
    }
    const { caller, load } = connection
    clearTimeout(connection.timer)
    load.requests++
    response.once('close', () => {
      load.requests--
      if (!request.socket.destroyed) this.#awaitHead(request.socket, connection)
    })
    const refusal = this.#refusalOf(request, connection)
    if (refusal !== undefined) {
      const body = JSON.stringify({ error: { message: `craik: ${refusal[1]}`, type: 'craik' } })
      const headers = { 'content-type': 'application/json' }
      answerUnread(request, response, refusal[0], headers, body, this.#limits)
      return
    }
    if (isProxied(request)) this.#plain(caller, request, response)
    else if (this.#options.otherRoute?.(caller, request, response) !== true) {
      void this.#models.handle(caller, load, request, response)
      return
    }
    // These handlers read the body at once, so the server asks the client to send it.
    if (expectsContinue(request) && !response.headersSent) response.writeContinue()
  }

  #refusalOf(
    request: IncomingMessage,
    { load, check }: Connection,
  ): [status: number, why: string] | undefined {
    const url = request.url ?? ''
    const notLetIn = check?.(request)
    if (notLetIn !== undefined) return [notLetIn.status, notLetIn.why]
    if (load.requests > this.#limits.requests) return [429, 'too many requests at once; wait for responses']
    // Parsers disagree about where such a message ends.
    if (request.headers['transfer-encoding'] !== undefined && request.headers['content-length'] !== undefined)
      return [400, 'a request cannot have both a length and chunked encoding']
    if (!/^(?:\/|https?:\/\/)/i.test(url) || /[^\x21-\x7e]/.test(url))
      return [400, 'the request target is invalid']
    return undefined
  }

  #plain(caller: GatewayCaller, request: IncomingMessage, response: ServerResponse): void {
    const { egress } = this.#options
    if (egress !== undefined) egress.handlePlain(caller, request, response)
    else
      response
        .writeHead(403, { 'content-type': 'text/plain' })
        .end('blocked by craik: egress is not allowed\n')
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const connection = this.#connections.get(socket)
    const { egress } = this.#options
    clearTimeout(connection?.timer)
    const notLetIn = connection?.check?.(request)
    if (connection === undefined) socket.destroy()
    else if (notLetIn !== undefined) answerRaw(socket, statusLine(notLetIn.status), notLetIn.why)
    else if (!isProxied(request))
      this.#models.upgrade(connection.caller, connection.load, request, socket, head)
    else if (egress !== undefined) egress.handleUpgrade(connection.caller, request, socket)
    else answerRaw(socket, '403 Forbidden', 'blocked by craik: egress is not allowed')
  }

  #onMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
    const caller = this.#connections.get(socket)?.caller
    const { egress } = this.#options
    if (caller !== undefined && egress !== undefined) egress.handleMalformed(caller, error, socket)
    else if (error.code === 'HPE_HEADER_OVERFLOW')
      answerRaw(socket, '431 Request Header Fields Too Large', 'the request headers are too long')
    else answerRaw(socket, '400 Bad Request', 'the HTTP request is invalid')
  }

  #connect(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const connection = this.#connections.get(socket)
    const { egress } = this.#options
    clearTimeout(connection?.timer)
    const notLetIn = connection?.check?.(request)
    if (connection === undefined) socket.destroy()
    else if (notLetIn !== undefined) answerRaw(socket, statusLine(notLetIn.status), notLetIn.why)
    else if (egress === undefined)
      answerRaw(socket, '403 Forbidden', 'blocked by craik: egress is not allowed')
    else egress.handleConnect(connection.caller, request, socket, head)
  }
}

/** Returns whether the request is in proxy form. */
function isProxied({ url = '' }: IncomingMessage): boolean {
  return /^https?:\/\//i.test(url)
}

function statusLine(status: number): string {
  return `${status} ${STATUS_CODES[status]}`
}
