/**
 * A model request from the caller's identity to its receipts. Policy, quota and budget decide first, the credential is
 * added last, and the response is forwarded unchanged. The steps and their order are those of the dispatch.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Account } from '../../accounts/account.ts'
import { CraikError } from '../../errors.ts'
import { type Asked, CAP_FIELD_BYTES, refusedBeforehand } from '../../providers/dispatch/admission.ts'
import type { CallIdentity, Hop, RefusalNotes, Unanswered } from '../../providers/dispatch/hop.ts'
import { nextHop } from '../../providers/dispatch/next-hop.ts'
import { findProvider } from '../../providers/load-providers.ts'
import type { ProviderRecord } from '../../providers/provider-record.ts'
import type { GatewayCaller } from '../caller.ts'
import {
  type AddressedCall,
  addressCall,
  callIdentity,
  type ModelCallDeps,
  runCall,
  SIDE,
} from './admitted-call.ts'
import type { BufferedBytes } from './body.ts'
import { currentCredential, isNotRenewed, type Login, type LoginRefusal } from './choose-login.ts'
import type { Client } from './client-response.ts'
import type { GatewayConfig } from './config.ts'
import type { DialectRequest } from './dialects/dialect.ts'
import { exchangeWithUpstream, type UpstreamResponse } from './exchange.ts'
import type { ModelRoute } from './model-routes.ts'

/** A call, as far as the request's head describes it. */
export interface CallHead {
  readonly caller: GatewayCaller
  readonly route: ModelRoute
  readonly record: ProviderRecord
  readonly config: GatewayConfig
  readonly accounts: readonly Account[]
  /** The credentials that the client presented. */
  readonly presented: readonly string[]
  readonly headers: IncomingHttpHeaders
  readonly search: string
  readonly client: Client
  readonly until: AbortSignal
}

/** A call with the results of the checks on its head, and with its body. */
export interface ModelCallRequest extends CallHead {
  readonly cleared: ClearedCall
  readonly body: Buffer | undefined
  /** `undefined` for a request that does not call a model. */
  readonly ask: DialectRequest | undefined
  readonly held: BufferedBytes
}

/** A call that passed the checks on its head. */
export interface ClearedCall extends AddressedCall {
  readonly call: CallIdentity
  readonly refusals: RefusalNotes
}

/** `undefined` when the client has its response. Otherwise the reason, for the code that formats the error. */
export type UnservedReason =
  | (Unanswered & { readonly response?: UpstreamResponse | undefined })
  | LoginRefusal
  | 'other_dialect'
  | undefined

/** The model of a route until the body names one. */
export const UNKNOWN_MODEL = 'unknown'

/**
 * Checks what can be decided before the body is read: the provider, the login, the grant and the request quota. The
 * gateway reads nothing for a refused caller. Policy, quotas and budgets decide again about the request that is
 * actually sent.
 */
export async function clearCall(deps: ModelCallDeps, head: CallHead): Promise<ClearedCall | UnservedReason> {
  const { caller, record, config, route: wanted, accounts, presented } = head
  const call = callIdentity(caller)
  const refusals = deps.refusals.notesOf(caller)
  const hop: Hop = {
    place: deps,
    call,
    record,
    cooldownMs: config.failover?.cooldown_ms,
    written: [],
    refusals,
  }
  const model = wanted.kind === 'call' ? (wanted.model ?? UNKNOWN_MODEL) : wanted.model
  const found = await addressCall(deps, hop, { caller, wanted, accounts, presented, model })
  if (typeof found === 'string' || 'kind' in found) return found
  const refused = await refusedBeforehand(hop, found.route)
  return refused ?? { ...found, call, refusals }
}

export async function forwardModelCall(
  deps: ModelCallDeps,
  request: ModelCallRequest,
): Promise<UnservedReason> {
  const { config, cleared } = request
  const { call, refusals } = cleared
  const written: string[] = []
  const tried: string[] = []
  let { record } = request
  let before: Exclude<UnservedReason, string | undefined> | undefined
  for (;;) {
    tried.push(record.id)
    const hop: Hop = {
      place: deps,
      call,
      record,
      cooldownMs: config.failover?.cooldown_ms,
      written,
      refusals,
    }
    const result = await attempt(deps, hop, request, tried.length > 1)
    if (result === undefined) return undefined
    // A refused fallback provider changes nothing: the first provider's failure is reported.
    if (typeof result === 'string') return before ?? result
    if (result.failure === undefined && before !== undefined) return before
    const next =
      config.failover &&
      (await nextHop(hop, config.failover, result, tried, request.client.closeSignal.aborted))
    if (next === undefined) return result
    before = result
    record = findProvider(config.records, next)
  }
}

async function attempt(
  deps: ModelCallDeps,
  hop: Hop,
  request: ModelCallRequest,
  isFallback: boolean,
): Promise<UnservedReason> {
  const { route: wanted, accounts, caller, ask, client, cleared } = request
  // The model and the sentinel in a request are for the first provider. A fallback provider uses its own.
  const found = isFallback
    ? await addressCall(deps, hop, { caller, wanted, accounts, model: undefined, presented: [] })
    : { login: cleared.login, route: { ...cleared.route, model: ask?.model ?? cleared.route.model } }
  if (typeof found === 'string' || 'kind' in found) return found
  const { route, login } = found
  const loggedOut = await withoutLogin(hop, login, request.until)
  if (loggedOut !== undefined) return loggedOut
  const isSide = wanted.kind === 'side' || ask === undefined
  const changed = isFallback ? { model: route.model } : {}
  const body = ask !== undefined && isFallback ? ask.spelled(changed, login.baseUrl) : request.body
  const cap = ask?.maxOutputTokens ?? null
  const bytes: Asked = isSide
    ? SIDE
    : {
        inputBytes: body!.length + (cap === null ? CAP_FIELD_BYTES : 0),
        maxOutputTokens: cap,
        capCanBeSet: wanted.dialect.takesCap(login.account),
        unpriced: ask.unpriced,
      }
  const done = await runCall(
    deps,
    hop,
    route,
    { asked: bytes, free: isSide },
    ({ maxOutputTokens }, onEnd) => {
      const isCapped = !isSide && maxOutputTokens !== null && maxOutputTokens !== cap
      return exchangeWithUpstream({
        upstreams: deps.upstreams,
        login,
        request: {
          path: wanted.path(route.model) + request.search,
          method: wanted.method,
          body: isCapped ? ask.spelled({ ...changed, cap: maxOutputTokens }, login.baseUrl) : body,
        },
        headers: request.headers,
        client,
        held: request.held,
        reader: isSide ? undefined : wanted.dialect.reader(),
        until: request.until,
        onEnd,
      })
    },
  )
  if ('kind' in done) return done
  if (done.failed?.failure === 'unauthorized') hop.refusals?.spend()
  return done.failed && { ...done.failed, contentPassedOn: client.hasBegun, response: done.result.response }
}

/**
 * Without a login, nothing leaves the host, and a call would end as soon as it begins. In a flood, such calls are
 * refused before they begin.
 */
async function withoutLogin(
  { refusals, record }: Hop,
  login: Login,
  until: AbortSignal,
): Promise<Unanswered | undefined> {
  if (refusals === undefined || refusals.isSingle()) return undefined
  // The call itself reports any other error.
  const held = await currentCredential(login, until).catch(() => undefined)
  if (!(held instanceof CraikError)) return undefined
  const isLater = isNotRenewed(held)
  refusals.count(isLater ? 'gateway.login_not_renewed' : 'gateway.credential', record.id)
  const { message: reason, hint = '' } = held
  return {
    kind: 'failed',
    failure: isLater ? 'unreachable' : 'unauthorized',
    reason,
    hint,
    receiptId: undefined,
    contentPassedOn: false,
  }
}
