/** The model gateway: serves requests in the wire formats of agent CLIs, with the providers that the caller can use. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Broker } from '../../accounts/account.ts'
import { CraikError } from '../../errors.ts'
import type { ProviderDeps } from '../../providers/dispatch-types.ts'
import { findProvider } from '../../providers/load-providers.ts'
import type { GatewayCaller } from '../caller.ts'
import { faultMessage, isConfigFault } from '../config-fault.ts'
import type { GatewayLimits } from '../gateway-limits.ts'
import { answerRaw } from '../raw-response.ts'
import { RefusalReceipts } from '../refusal-receipts.ts'
import type { ModelCallDeps } from './admitted-call.ts'
import { BufferedBytes, describeFault, type MemoryBudget, type RefusedBody, readBody } from './body.ts'
import { workspaceBody } from './chatgpt-workspace.ts'
import { readPresented } from './client-credential.ts'
import { Client } from './client-response.ts'
import { ConfigReader } from './config.ts'
import type { GatewayDialect } from './dialects/dialect.ts'
import { isMalformed } from './dialects/request-fields.ts'
import { TOO_LONG } from './exchange.ts'
import { listBody, usableModels } from './list-models.ts'
import { clearCall, forwardModelCall, type UnservedReason } from './model-call.ts'
import { dialectOfPath, type ModelRoute, routeOf } from './model-routes.ts'
import type { CallerLoad } from './socket/socket-session.ts'
import { describeUnserved, formatUnserved, words } from './unserved-error.ts'
import { type UpstreamOptions, Upstreams } from './upstream.ts'

export interface ModelsOptions extends UpstreamOptions {
  readonly deps: ProviderDeps
  readonly broker: Broker
  /** Reports internal errors. The client gets no details of them. */
  readonly report: (error: unknown) => void
}

export interface Models {
  /** Responds to every request, also to unknown routes. */
  handle(
    caller: GatewayCaller,
    memory: MemoryBudget,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void>
  /** The same for WebSocket requests. */
  upgrade(
    caller: GatewayCaller,
    load: CallerLoad,
    request: IncomingMessage,
    stream: Duplex,
    head: Buffer,
  ): void
  /** Ends the open calls, and resolves when they are settled. */
  close(): Promise<void>
}

const NO_RETRY = { 'x-should-retry': 'false' }

/** The date of the records that ship with Craik. Models have no date of their own here. */
const LISTED_AT = '2026-11-01T00:00:00Z'

export function createModels(options: ModelsOptions, limits: GatewayLimits): Models {
  return new ModelGateway(options, limits)
}

class ModelGateway implements Models {
  readonly #options: ModelsOptions
  readonly #limits: GatewayLimits
  readonly #deps: ModelCallDeps
  readonly #config: ConfigReader
  readonly #refusals: RefusalReceipts
  readonly #closing = new AbortController()
  readonly #going = new Set<Promise<void>>()

  constructor(options: ModelsOptions, limits: GatewayLimits) {
    const { deps, broker, report } = options
    this.#options = options
    this.#limits = limits
    const refusals = new RefusalReceipts(deps.log, report)
    const upstreams = new Upstreams(options, limits)
    this.#deps = { ...deps, broker, report, upstreams, pending: new Set(), refusals }
    this.#config = new ConfigReader(deps.home)
    this.#refusals = refusals
  }

  async handle(
    caller: GatewayCaller,
    memory: MemoryBudget,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const client = new Client(request, response, this.#limits)
    const [path = '', query = ''] = splitOnce(request.url ?? '')
    const route = routeOf(request.method ?? '', path)
    const dialect = route?.dialect ?? dialectOfPath(path)
    const going = (
      route === undefined
        ? this.#unknown(caller, dialect, client)
        : this.#answer(caller, memory, route, query, request, client)
    ).catch((error: unknown) => this.#fault(error, dialect, client))
    await this.#track(going)
  }

  upgrade(
    caller: GatewayCaller,
    load: CallerLoad,
    request: IncomingMessage,
    stream: Duplex,
    head: Buffer,
  ): void {
    const going = this.#upgrade(caller, load, request, stream, head).catch((error: unknown) => {
      this.#options.report(error)
      answerRaw(
        stream,
        '500 Internal Server Error',
        'internal error on the host; check there:  craik supervisor logs',
      )
    })
    void this.#track(going)
  }

  async #track(going: Promise<void>): Promise<void> {
    this.#going.add(going)
    await going
    this.#going.delete(going)
  }

  async #upgrade(
    caller: GatewayCaller,
    load: CallerLoad,
    request: IncomingMessage,
    stream: Duplex,
    head: Buffer,
  ): Promise<void> {
    const { handshakeFault, isSocketRoute, serveSocket } = await import('./socket/upgrade.ts')
    const [path, query] = splitOnce(request.url ?? '')
    const wanted = routeOf('POST', path)
    if (!isSocketRoute(wanted)) {
      answerRaw(stream, '426 Upgrade Required', 'this route supports only HTTP; retry without an upgrade')
      return
    }
    const fault = handshakeFault(request)
    if (fault !== undefined) {
      answerRaw(stream, '400 Bad Request', fault)
      return
    }
    const { values: presented, search } = readPresented(request.headers, new URLSearchParams(query))
    const target = wanted.providerId ?? wanted.dialect.providerId
    await serveSocket(
      {
        caller,
        load,
        wanted,
        presented,
        search,
        headers: request.headers,
        deps: { ...this.#deps, broker: this.#options.broker },
        config: this.#config,
        limits: this.#limits,
        closing: this.#closing.signal,
        refused: (rule) => this.#refusals.write(caller, { rule, target }),
        report: this.#options.report,
      },
      request,
      stream,
      head,
    )
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#going)
    await Promise.all(this.#deps.pending)
    await this.#refusals.close()
    await this.#deps.upstreams.close()
  }

  async #unknown(caller: GatewayCaller, dialect: GatewayDialect, client: Client): Promise<void> {
    this.#refuse(caller, dialect, client, 'gateway.no_route', undefined, {
      status: 404,
      message: 'the gateway does not have this route; see docs/reference/gateway.md',
    })
  }

  async #answer(
    caller: GatewayCaller,
    memory: MemoryBudget,
    route: ModelRoute,
    query: string,
    request: IncomingMessage,
    client: Client,
  ): Promise<void> {
    const { dialect } = route
    const config = await this.#config.current()
    const tooLong = new AbortController()
    const timer = setTimeout(() => tooLong.abort(TOO_LONG), this.#limits.callMs)
    const until = AbortSignal.any([client.closeSignal, this.#closing.signal, tooLong.signal])
    const held = new BufferedBytes(memory, this.#limits)
    try {
      const record = findProvider(config.records, route.providerId ?? dialect.providerId)
      const refuse = (
        rule: string,
        status: number,
        message: string,
        headers?: Readonly<Record<string, string>>,
      ) => this.#refuse(caller, dialect, client, rule, record.id, { status, message, headers })
      const refuseEarly = (why: Extract<UnservedReason, string>) => {
        const { rule, status, message } = describeUnserved(why, record)
        refuse(rule, status, message)
      }
      const accounts = await this.#options.broker.accounts(until)
      if (route.kind === 'list') {
        const models = await usableModels(this.#deps, caller, config.records, accounts)
        const style =
          dialect.wire === 'gemini' ? 'gemini' : request.headers['anthropic-version'] ? 'anthropic' : 'openai'
        client.answer(200, { 'content-type': 'application/json' }, listBody(models, style, LISTED_AT))
        return
      }
      const { values: presented, search } = readPresented(request.headers, new URLSearchParams(query))
      if (route.kind === 'workspace') {
        // A caller without a login has no workspace either.
        if (caller.credentials === 'none') return await this.#unknown(caller, dialect, client)
        const body = workspaceBody(caller, accounts, presented, request.headers['chatgpt-account-id'])
        if (body === undefined) refuseEarly('not_own_credential')
        else client.answer(200, { 'content-type': 'application/json' }, body)
        return
      }
      const { headers } = request
      const head = { caller, route, record, config, accounts, presented, search, headers, client, until }
      const cleared = await clearCall(this.#deps, head)
      if (cleared === undefined || typeof cleared === 'string' || 'kind' in cleared) {
        if (typeof cleared === 'string') refuseEarly(cleared)
        else if (cleared !== undefined) this.#sendUnserved(dialect, client, cleared)
        return
      }
      const lookInto = route.kind === 'call' ? dialect.lookInto : undefined
      const awaitBody = () => client.awaitBody()
      const body =
        route.method === 'POST'
          ? await readBody(request, memory, this.#limits, { lookInto, awaited: awaitBody, until, held })
          : undefined
      if (typeof body === 'string') {
        const { status, message, headers } = describeFault(body, this.#limits)
        refuse(`gateway.body.${body}`, status, message, headers)
        return
      }
      const ask =
        body?.members === undefined
          ? undefined
          : dialect.ask({ bytes: body.bytes, members: body.members }, route.model)
      if (ask !== undefined && isMalformed(ask)) {
        refuse('gateway.malformed', 400, ask.malformed)
        return
      }
      const unserved = await forwardModelCall(this.#deps, { ...head, cleared, ask, body: body?.bytes, held })
      if (typeof unserved === 'string') refuseEarly(unserved)
      else if (unserved !== undefined) this.#sendUnserved(dialect, client, unserved)
    } finally {
      clearTimeout(timer)
      held.release()
    }
  }

  #sendUnserved(
    dialect: GatewayDialect,
    client: Client,
    result: Exclude<UnservedReason, string | undefined>,
  ): void {
    const { headers, ...error } = formatUnserved(result, this.#deps.clock.nowMs())
    const reply = result.kind === 'failed' ? result.response : undefined
    if (reply !== undefined && !client.hasBegun) {
      if ('names' in reply) client.fail(dialect, { ...error, ...reply }, headers)
      else client.answer(reply.status, reply.headers, reply.body)
    } else if (client.hasBegun || client.hasSentAll) client.fail(dialect, error, headers)
    else client.refuse(dialect, error, headers)
  }

  #refuse(
    caller: GatewayCaller,
    dialect: GatewayDialect,
    client: Client,
    rule: string,
    target: string | undefined,
    { status, message, headers = NO_RETRY }: RefusedBody,
  ): void {
    this.#refusals.write(caller, { rule, target: target ?? 'gateway' })
    client.refuse(dialect, { status, message: words(message, '') }, headers)
  }

  /** An internal or config error. It is reported here, and the client gets only what it can use. */
  #fault(error: unknown, dialect: GatewayDialect, client: Client): void {
    if (error instanceof CraikError && (error.code === 'not_found' || error.code === 'usage')) {
      const status = error.code === 'not_found' ? 404 : 400
      client.fail(dialect, { status, message: words(error.message, error.hint) })
      return
    }
    // A client that disconnects aborts its call, and so does the end of the gateway. That is not an error, and would fill the log.
    const isEnding = client.closeSignal.aborted || this.#closing.signal.aborted
    if (!isEnding || (error as Error).name !== 'AbortError') this.#options.report(error)
    const headers = isConfigFault(error) ? NO_RETRY : {}
    client.fail(dialect, { status: 500, message: words(faultMessage(error), '') }, headers)
  }
}

function splitOnce(url: string): [path: string, query: string] {
  const at = url.indexOf('?')
  return at === -1 ? [url, ''] : [url.slice(0, at), url.slice(at + 1)]
}
