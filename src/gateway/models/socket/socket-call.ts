/** One WebSocket message that requests a response, from the caller's identity to its receipts. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Broker } from '../../../accounts/account.ts'
import { CraikError } from '../../../errors.ts'
import { CAP_FIELD_BYTES, refusedBeforehand } from '../../../providers/dispatch/admission.ts'
import type { Ended } from '../../../providers/dispatch/exchange.ts'
import type { Hop } from '../../../providers/dispatch/hop.ts'
import { findProvider } from '../../../providers/load-providers.ts'
import type { GatewayCaller } from '../../caller.ts'
import type { GatewayLimits } from '../../gateway-limits.ts'
import { addressCall, callIdentity, type ModelCallDeps, runCall } from '../admitted-call.ts'
import { type BodyFault, describeFault, type MemoryBudget } from '../body.ts'
import { currentCredential, isNotRenewed, type Login } from '../choose-login.ts'
import type { ConfigReader } from '../config.ts'
import type { ScannedBody } from '../dialects/dialect.ts'
import { type CreateRequestFields, createAsk } from '../dialects/openai-responses.ts'
import { isMalformed } from '../dialects/request-fields.ts'
import { UNKNOWN_MODEL } from '../model-call.ts'
import type { ModelRoute } from '../model-routes.ts'
import { describeUnserved, formatUnserved, type UnservedError, words } from '../unserved-error.ts'
import type { ClientSocket } from './client-socket.ts'
import { type Opened, openWithLogin } from './open-upstream.ts'
import { passAnswer } from './pass-response.ts'
import type { UpstreamSocket } from './upstream-socket.ts'

/**
 * The connection to the provider, if there is one, and the responses that a message can refer to, with their size in
 * tokens.
 */
export interface ProviderLink {
  upstream: UpstreamSocket | undefined
  readonly known: Map<string, number>
}

export interface SocketCall {
  readonly deps: ModelCallDeps & { readonly broker: Broker }
  readonly config: ConfigReader
  readonly limits: GatewayLimits
  readonly caller: GatewayCaller
  readonly load: MemoryBudget
  readonly wanted: ModelRoute
  /** The credentials that the client presented when it connected, and the other headers of that request. */
  readonly presented: readonly string[]
  readonly search: string
  readonly headers: IncomingHttpHeaders
  readonly link: ProviderLink
  readonly client: ClientSocket
  readonly until: AbortSignal
}

export interface CallOutcome {
  /** The error for the client. `undefined` when the client already has one. */
  readonly error?: UnservedError & { readonly code?: string }
  /** The rule of a refusal before any decision, for its own receipt. */
  readonly refused?: string
  readonly hasBegun?: boolean
  readonly response?: { readonly id: string; readonly tokens: number } | undefined
  /** There is no connection to the provider, and none can be opened. */
  readonly isLost?: boolean
}

export async function callOverSocket(call: SocketCall, message: Buffer): Promise<CallOutcome> {
  const { deps, caller, wanted, presented, until, link } = call
  const addressee = await whoFor(call)
  if ('error' in addressee) return addressee
  const { hop } = addressee
  const accounts = await deps.broker.accounts(until).catch((error: unknown) => {
    drop(link)
    throw error
  })
  const found = await addressCall(deps, hop, { caller, wanted, accounts, presented, model: UNKNOWN_MODEL })
  if (typeof found === 'string') {
    drop(link)
    const { rule, status, message } = describeUnserved(found, hop.record)
    return early(rule, status, message)
  }
  const refused = 'kind' in found ? found : await refusedBeforehand(hop, found.route)
  if ('kind' in found || refused !== undefined) return { error: formatUnserved(refused!, deps.clock.nowMs()) }
  const { login } = found
  const held = await currentCredential(login, until)
  if (held instanceof CraikError) {
    drop(link)
    return isNotRenewed(held)
      ? early('gateway.login_not_renewed', 502, held.message, held.hint)
      : early('gateway.credential', 401, held.message, held.hint)
  }
  if (link.upstream?.isOpen !== true || !link.upstream.isFor(login, held)) drop(link)
  const scanned = await scanMessage(call, message)
  if (typeof scanned === 'string') {
    const { status, message, headers } = describeFault(scanned, call.limits)
    const reported = early(`gateway.body.${scanned}`, status, message)
    return { ...reported, error: { ...reported.error!, headers: { ...headers } } }
  }
  const ask = createAsk(scanned)
  if (isMalformed(ask)) return early('gateway.malformed', 400, ask.malformed)
  const route = { ...found.route, model: ask.model }
  const known = ask.previousId === undefined ? 0 : link.known.get(ask.previousId)
  if (known === undefined) {
    const reported = early(
      'gateway.previous_response',
      400,
      'this connection does not have that response; send the whole conversation without previous_response_id',
    )
    return { ...reported, error: { ...reported.error!, code: 'previous_response_not_found' } }
  }
  return perform(call, hop, { route, login }, ask, scanned.bytes, known)
}

/** Scans a message like a request body. */
async function scanMessage(
  { load, limits, wanted, until }: SocketCall,
  message: Buffer,
): Promise<ScannedBody | BodyFault> {
  const { lookInto } = wanted.dialect
  const terms = { coding: 'identity', maxBytes: limits.bodyBytes, lookInto } as const
  const scanned = await load.scanner.scan([message], terms, until)
  return typeof scanned === 'string' ? scanned : { bytes: scanned.bytes, members: scanned.members! }
}

async function perform(
  call: SocketCall,
  hop: Hop,
  { route, login }: Extract<Awaited<ReturnType<typeof addressCall>>, { login: Login }>,
  ask: CreateRequestFields,
  message: Buffer,
  known: number,
): Promise<CallOutcome> {
  const { deps, wanted, limits, link, client, until } = call
  const cap = ask.maxOutputTokens
  const inputTokens = known + message.length + (cap === null ? CAP_FIELD_BYTES : 0)
  const requested = {
    inputBytes: inputTokens,
    maxOutputTokens: cap,
    capCanBeSet: wanted.dialect.takesCap(login.account),
    unpriced: ask.unpriced,
  }
  const done = await runCall(
    deps,
    hop,
    route,
    { asked: requested, free: false },
    async ({ maxOutputTokens }, onEnd) => {
      const opened: Opened = link.upstream ? { upstream: link.upstream } : await openWithLogin(call, login)
      if (!('upstream' in opened)) {
        onEnd(notSent(opened.end))
        return undefined
      }
      link.upstream = opened.upstream
      const isCapped = maxOutputTokens !== null && maxOutputTokens !== cap
      return passAnswer({
        client,
        limits,
        inputTokens,
        until,
        onEnd,
        isWarmUp: ask.isWarmUp,
        upstream: opened.upstream,
        baseUrl: login.baseUrl,
        message: isCapped ? ask.spelled({ cap: maxOutputTokens }, login.baseUrl) : message,
      })
    },
  )
  if ('kind' in done) return { error: formatUnserved(done, deps.clock.nowMs()) }
  const { result, failed } = done
  if (failed === undefined || result?.isReported === true) return { response: result?.response }
  const hasBegun = result?.hasBegun === true
  const error = formatUnserved({ ...failed, contentPassedOn: hasBegun }, deps.clock.nowMs())
  return { error, hasBegun, isLost: result === undefined }
}

function notSent(end: Ended['end']): Ended {
  return { end, usage: undefined, sentBytes: 0, receivedBytes: 0 }
}

/** After a logout, the login is not used any further, not even over open connections. */
function drop(link: ProviderLink): void {
  link.upstream?.end()
  link.upstream = undefined
  link.known.clear()
}

/** Returns the provider from the present config. */
export async function whoFor({
  deps,
  config,
  caller,
  wanted,
}: Pick<SocketCall, 'deps' | 'config' | 'caller' | 'wanted'>): Promise<
  { readonly hop: Hop } | { readonly error: UnservedError }
> {
  try {
    const { records, failover } = await config.current()
    const record = findProvider(records, wanted.providerId ?? wanted.dialect.providerId)
    const call = callIdentity(caller)
    const refusals = deps.refusals.notesOf(caller)
    return { hop: { place: deps, call, record, cooldownMs: failover?.cooldown_ms, written: [], refusals } }
  } catch (error) {
    if (!(error instanceof CraikError) || (error.code !== 'not_found' && error.code !== 'usage')) throw error
    const status = error.code === 'not_found' ? 404 : 400
    return { error: { status, message: words(error.message, error.hint), headers: {} } }
  }
}

function early(rule: string, status: number, message: string, hint = ''): CallOutcome {
  return { refused: rule, error: { status, message: words(message, hint), headers: {} } }
}
