/** One message of a WebSocket that asks for an answer, from whose it is to its receipts. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Broker } from '../../../accounts/account.ts'
import { CraikError } from '../../../errors.ts'
import { CAP_FIELD_BYTES, refusedBeforehand } from '../../../providers/dispatch/admission.ts'
import type { Ended } from '../../../providers/dispatch/exchange.ts'
import type { Hop } from '../../../providers/dispatch/hop.ts'
import { findProvider } from '../../../providers/registry.ts'
import type { GatewayCaller } from '../../caller.ts'
import type { GatewayLimits } from '../../limits.ts'
import { addressed, callIdentity, type ModelCallDeps, underway } from '../admitted-call.ts'
import { type BodyFault, describeFault, type MemoryBudget } from '../body.ts'
import { UNKNOWN_MODEL } from '../call.ts'
import type { ConfigReader } from '../config.ts'
import type { ScannedBody } from '../dialects/dialect.ts'
import { isMalformed } from '../dialects/fields.ts'
import { type CreateAsk, createAsk } from '../dialects/openai-responses.ts'
import { currentCredential, isNotRenewed, type Login } from '../login.ts'
import type { ModelRoute } from '../routes.ts'
import { describeUnserved, formatUnserved, type UnservedError, words } from '../unserved.ts'
import { passAnswer } from './answer.ts'
import type { ClientSocket } from './client-socket.ts'
import { type Opened, openWithLogin } from './open.ts'
import type { UpstreamSocket } from './upstream-socket.ts'

/** The connection to the provider, if there is one, and what it may be reminded of: answers with their size in tokens. */
export interface ProviderLink {
  upstream: UpstreamSocket | undefined
  readonly known: Map<string, number>
}

export interface SocketCall {
  readonly place: ModelCallDeps & { readonly broker: Broker }
  readonly config: ConfigReader
  readonly limits: GatewayLimits
  readonly caller: GatewayCaller
  readonly load: MemoryBudget
  readonly wanted: ModelRoute
  /** What the client presented when it connected, and the rest of that request. */
  readonly presented: readonly string[]
  readonly search: string
  readonly headers: IncomingHttpHeaders
  readonly link: ProviderLink
  readonly client: ClientSocket
  readonly until: AbortSignal
}

export interface CallOutcome {
  /** What the client has to be told; undefined: it has been. */
  readonly error?: UnservedError & { readonly code?: string }
  /** Why nothing was decided, for a receipt of its own. */
  readonly refused?: string
  readonly hasBegun?: boolean
  readonly response?: { readonly id: string; readonly tokens: number } | undefined
  /** There is no connection, and none to be had. */
  readonly isLost?: boolean
}

export async function callOverSocket(call: SocketCall, message: Buffer): Promise<CallOutcome> {
  const { place, caller, wanted, presented, until, link } = call
  const addressee = await whoFor(call)
  if ('error' in addressee) return addressee
  const { hop } = addressee
  const accounts = await place.broker.accounts(until).catch((error: unknown) => {
    drop(link)
    throw error
  })
  const found = await addressed(place, hop, { caller, wanted, accounts, presented, model: UNKNOWN_MODEL })
  if (typeof found === 'string') {
    drop(link)
    const { rule, status, message } = describeUnserved(found, hop.record)
    return early(rule, status, message)
  }
  const refused = 'kind' in found ? found : await refusedBeforehand(hop, found.route)
  if ('kind' in found || refused !== undefined)
    return { error: formatUnserved(refused!, place.clock.nowMs()) }
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
    const told = early(`gateway.body.${scanned}`, status, message)
    return { ...told, error: { ...told.error!, headers: { ...headers } } }
  }
  const ask = createAsk(scanned)
  if (isMalformed(ask)) return early('gateway.malformed', 400, ask.malformed)
  const route = { ...found.route, model: ask.model }
  const known = ask.previousId === undefined ? 0 : link.known.get(ask.previousId)
  if (known === undefined) {
    const told = early(
      'gateway.previous_response',
      400,
      'this connection does not have that response; send the whole conversation without previous_response_id',
    )
    return { ...told, error: { ...told.error!, code: 'previous_response_not_found' } }
  }
  return perform(call, hop, { route, login }, ask, scanned.bytes, known)
}

/** A message is a body, and read as one. */
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
  { route, login }: Extract<Awaited<ReturnType<typeof addressed>>, { login: Login }>,
  ask: CreateAsk,
  message: Buffer,
  known: number,
): Promise<CallOutcome> {
  const { place, wanted, limits, link, client, until } = call
  const cap = ask.maxOutputTokens
  const inputTokens = known + message.length + (cap === null ? CAP_FIELD_BYTES : 0)
  const asked = {
    inputBytes: inputTokens,
    maxOutputTokens: cap,
    capCanBeSet: wanted.dialect.takesCap(login.account),
    unpriced: ask.unpriced,
  }
  const done = await underway(
    place,
    hop,
    route,
    { asked, free: false },
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
  if ('kind' in done) return { error: formatUnserved(done, place.clock.nowMs()) }
  const { result, failed } = done
  if (failed === undefined || result?.isTold === true) return { response: result?.response }
  const hasBegun = result?.hasBegun === true
  const error = formatUnserved({ ...failed, contentPassedOn: hasBegun }, place.clock.nowMs())
  return { error, hasBegun, isLost: result === undefined }
}

function notSent(end: Ended['end']): Ended {
  return { end, usage: undefined, sentBytes: 0, receivedBytes: 0 }
}

/** Whoever has logged out is not spoken for any longer, also not over what is open. */
function drop(link: ProviderLink): void {
  link.upstream?.end()
  link.upstream = undefined
  link.known.clear()
}

/** The provider as the files say now. */
export async function whoFor({
  place,
  config,
  caller,
  wanted,
}: Pick<SocketCall, 'place' | 'config' | 'caller' | 'wanted'>): Promise<
  { readonly hop: Hop } | { readonly error: UnservedError }
> {
  try {
    const { records, failover } = await config.current()
    const record = findProvider(records, wanted.providerId ?? wanted.dialect.providerId)
    const call = callIdentity(caller)
    const refusals = place.refusals.notesOf(caller)
    return { hop: { place, call, record, cooldownMs: failover?.cooldown_ms, written: [], refusals } }
  } catch (error) {
    if (!(error instanceof CraikError) || (error.code !== 'not_found' && error.code !== 'usage')) throw error
    const status = error.code === 'not_found' ? 404 : 400
    return { error: { status, message: words(error.message, error.hint), headers: {} } }
  }
}

function early(rule: string, status: number, message: string, hint = ''): CallOutcome {
  return { refused: rule, error: { status, message: words(message, hint), headers: {} } }
}
