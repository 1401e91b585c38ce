/**
 * A request for a model, from whose it is to its receipts: policy, quota and budget decide first, the credential goes
 * in last, and the answer passes through as it is. The steps, and their order, are those of the dispatch.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Account } from '../../accounts/account.ts'
import { CraikError } from '../../errors.ts'
import { type Asked, CAP_FIELD_BYTES, refusedBeforehand } from '../../providers/dispatch/admission.ts'
import type { CallIdentity, Hop, RefusalNotes, Unanswered } from '../../providers/dispatch/hop.ts'
import { nextHop } from '../../providers/dispatch/next-hop.ts'
import type { ProviderRecord } from '../../providers/record.ts'
import { findProvider } from '../../providers/registry.ts'
import type { GatewayCaller } from '../caller.ts'
import {
  type Addressed,
  addressed,
  callIdentity,
  type ModelCallDeps,
  SIDE,
  underway,
} from './admitted-call.ts'
import type { BufferedBytes } from './body.ts'
import type { Client } from './client.ts'
import type { GatewayConfig } from './config.ts'
import type { ModelRequest } from './dialects/dialect.ts'
import { exchange, type UpstreamResponse } from './exchange.ts'
import { currentCredential, isNotRenewed, type Login, type LoginRefusal } from './login.ts'
import type { ModelRoute } from './routes.ts'

/** A call as far as its request's head tells. */
export interface CallHead {
  readonly caller: GatewayCaller
  readonly route: ModelRoute
  readonly record: ProviderRecord
  readonly config: GatewayConfig
  readonly accounts: readonly Account[]
  /** What the client presented as its credential. */
  readonly presented: readonly string[]
  readonly headers: IncomingHttpHeaders
  readonly search: string
  readonly client: Client
  readonly until: AbortSignal
}

/** The same with what came of the checks before its body, and with the body. */
export interface ModelAsk extends CallHead {
  readonly cleared: Cleared
  readonly body: Buffer | undefined
  /** Undefined: nothing is asked of a model. */
  readonly ask: ModelRequest | undefined
  readonly held: BufferedBytes
}

/** A call that nothing stands against so far. */
export interface Cleared extends Addressed {
  readonly call: CallIdentity
  readonly refusals: RefusalNotes
}

/** Undefined: the client has its answer. Otherwise why it has none, for whoever spells it. */
export type Unserved =
  | (Unanswered & { readonly said?: UpstreamResponse | undefined })
  | LoginRefusal
  | 'other_dialect'
  | undefined

/** Stands for the model of a route until a body names it. */
export const UNKNOWN_MODEL = 'unknown'

/**
 * What can be decided before a body is read: whom it is for, the login, the grant and the quota of requests. Nobody whom these
 * refuse makes the gateway read anything. Policy, quotas and budgets decide again about what is really to be sent.
 */
export async function clearCall(place: ModelCallDeps, head: CallHead): Promise<Cleared | Unserved> {
  const { caller, record, config, route: wanted, accounts, presented } = head
  const call = callIdentity(caller)
  const refusals = place.refusals.notesOf(caller)
  const hop: Hop = { place, call, record, cooldownMs: config.failover?.cooldown_ms, written: [], refusals }
  const model = wanted.kind === 'call' ? (wanted.model ?? UNKNOWN_MODEL) : wanted.model
  const found = await addressed(place, hop, { caller, wanted, accounts, presented, model })
  if (typeof found === 'string' || 'kind' in found) return found
  const refused = await refusedBeforehand(hop, found.route)
  return refused ?? { ...found, call, refusals }
}

export async function callModel(place: ModelCallDeps, asked: ModelAsk): Promise<Unserved> {
  const { config, cleared } = asked
  const { call, refusals } = cleared
  const written: string[] = []
  const tried: string[] = []
  let { record } = asked
  let before: Exclude<Unserved, string | undefined> | undefined
  for (;;) {
    tried.push(record.id)
    const hop: Hop = { place, call, record, cooldownMs: config.failover?.cooldown_ms, written, refusals }
    const result = await attempt(place, hop, asked, tried.length > 1)
    if (result === undefined) return undefined
    // A stand-in that may not be called leaves things as they were: the first provider's failure is what happened.
    if (typeof result === 'string') return before ?? result
    if (result.failure === undefined && before !== undefined) return before
    const next =
      config.failover && (await nextHop(hop, config.failover, result, tried, asked.client.gone.aborted))
    if (next === undefined) return result
    before = result
    record = findProvider(config.records, next)
  }
}

async function attempt(
  place: ModelCallDeps,
  hop: Hop,
  asked: ModelAsk,
  isStandIn: boolean,
): Promise<Unserved> {
  const { route: wanted, accounts, caller, ask, client, cleared } = asked
  // The model and the sentinel of a request are for the first provider. A fallback provider takes its own.
  const found = isStandIn
    ? await addressed(place, hop, { caller, wanted, accounts, model: undefined, presented: [] })
    : { login: cleared.login, route: { ...cleared.route, model: ask?.model ?? cleared.route.model } }
  if (typeof found === 'string' || 'kind' in found) return found
  const { route, login } = found
  const loggedOut = await withoutLogin(hop, login, asked.until)
  if (loggedOut !== undefined) return loggedOut
  const isSide = wanted.kind === 'side' || ask === undefined
  const changed = isStandIn ? { model: route.model } : {}
  const body = ask !== undefined && isStandIn ? ask.spelled(changed, login.baseUrl) : asked.body
  const cap = ask?.maxOutputTokens ?? null
  const bytes: Asked = isSide
    ? SIDE
    : {
        inputBytes: body!.length + (cap === null ? CAP_FIELD_BYTES : 0),
        maxOutputTokens: cap,
        capCanBeSet: wanted.dialect.takesCap(login.account),
        unpriced: ask.unpriced,
      }
  const done = await underway(
    place,
    hop,
    route,
    { asked: bytes, free: isSide },
    ({ maxOutputTokens }, onEnd) => {
      const isCapped = !isSide && maxOutputTokens !== null && maxOutputTokens !== cap
      return exchange({
        upstreams: place.upstreams,
        login,
        request: {
          path: wanted.path(route.model) + asked.search,
          method: wanted.method,
          body: isCapped ? ask.spelled({ ...changed, cap: maxOutputTokens }, login.baseUrl) : body,
        },
        headers: asked.headers,
        client,
        held: asked.held,
        reader: isSide ? undefined : wanted.dialect.reader(),
        until: asked.until,
        onEnd,
      })
    },
  )
  if ('kind' in done) return done
  if (done.failed?.failure === 'unauthorized') hop.refusals?.spend()
  return done.failed && { ...done.failed, contentPassedOn: client.hasBegun, said: done.result.said }
}

/**
 * Without a login nothing leaves the host, and a call is over as soon as it is begun: whoever keeps asking is refused
 * before it begins.
 */
async function withoutLogin(
  { refusals, record }: Hop,
  login: Login,
  until: AbortSignal,
): Promise<Unanswered | undefined> {
  if (refusals === undefined || refusals.isSingle()) return undefined
  // Any other fault is the call's own to tell.
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
