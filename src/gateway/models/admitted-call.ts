/** The steps of every call through the gateway, over HTTP or WebSocket: a login, a turn, admission and settlement. */
import type { Account } from '../../accounts/account.ts'
import { type Admitted, type Asked, admitBytes } from '../../providers/dispatch/admission.ts'
import { denyHere } from '../../providers/dispatch/denials.ts'
import type { Ended } from '../../providers/dispatch/exchange.ts'
import type { CallIdentity, Failed, Hop, Unanswered } from '../../providers/dispatch/hop.ts'
import { findRoute, type Route } from '../../providers/dispatch/route.ts'
import { reportOf, settle } from '../../providers/dispatch/settlement.ts'
import { takeTurn } from '../../providers/dispatch/turn.ts'
import type { ProviderDeps } from '../../providers/dispatch-types.ts'
import type { GatewayCaller } from '../caller.ts'
import type { RefusalReceipts } from '../refusal-receipts.ts'
import { chooseLogin, type Login, type LoginDeps, type LoginRefusal, loginsFor } from './choose-login.ts'
import type { ModelRoute } from './model-routes.ts'
import type { Upstreams } from './upstream.ts'

export interface ModelCallDeps extends ProviderDeps, LoginDeps {
  readonly upstreams: Upstreams
  /** Settlements that the gateway must finish before it closes. */
  readonly pending: Set<Promise<unknown>>
  readonly refusals: RefusalReceipts
  readonly report: (error: unknown) => void
}

/** Calls that only count, list or connect are not billed. */
export const SIDE: Asked = { inputBytes: 0, maxOutputTokens: null, capCanBeSet: true }

export function callIdentity({
  operator,
  policyEnvelopeId,
  grantFor,
  scope,
  sandboxId,
}: GatewayCaller): CallIdentity {
  const found = new Map<string, Promise<string | undefined>>()
  return {
    operator,
    policyEnvelopeId,
    // The grant is looked up once for each call. The decision checks it again.
    grantFor(providerId) {
      const grant = found.get(providerId) ?? grantFor('model.chat', 'chat', providerId)
      found.set(providerId, grant)
      return grant
    },
    scope: { ...scope, ...(sandboxId !== undefined && { sandbox_id: sandboxId }) },
    links: {},
    ...(sandboxId !== undefined && { sandboxId }),
    transport: 'live',
  }
}

export interface AddressedCall {
  readonly route: Route
  readonly login: Login
}

/** Returns the route and the login of a call, or why it is refused. */
export async function addressCall(
  deps: ModelCallDeps,
  hop: Hop,
  requested: {
    readonly caller: GatewayCaller
    readonly wanted: ModelRoute
    readonly accounts: readonly Account[]
    readonly presented: readonly string[]
    readonly model: string | undefined
  },
): Promise<AddressedCall | Unanswered | LoginRefusal | 'other_dialect'> {
  const { caller, wanted, accounts, presented, model } = requested
  const found = await findRoute(deps, hop.record, {
    transport: 'live',
    ...(model !== undefined && { model }),
  })
  if ('rule' in found) return denyHere(hop, { by: 'provider', ...found })
  if (found.dialect !== wanted.dialect.wire) return 'other_dialect'
  const logins = loginsFor(hop.record, wanted.dialect, accounts, wanted.prefersLogin)
  const login = chooseLogin(deps, caller, found, wanted.dialect, logins, presented)
  if (typeof login === 'string') return login
  return { login, route: { ...found, baseUrl: login.baseUrl, billing: login.billing, secretName: login.ref } }
}

export interface RunningCall<Result> {
  readonly result: Result
  readonly ended: Ended
  /** `undefined` when the call got a response. */
  readonly failed: Omit<Failed, 'contentPassedOn'> | undefined
}

/** After admission, a hold and a begin receipt exist, so the call is settled in every case. `act` calls `end` once. */
export async function runCall<Result>(
  deps: ModelCallDeps,
  hop: Hop,
  route: Route,
  { asked: request, free }: { readonly asked: Asked; readonly free: boolean },
  act: (hold: Admitted['hold'], end: (ended: Ended) => void) => Promise<Result>,
): Promise<Unanswered | RunningCall<Result>> {
  const paid: Route = free ? { ...route, billing: 'free' } : route
  const turn = await takeTurn(hop, paid, { free })
  if ('kind' in turn) return turn
  let ended: Ended | undefined
  try {
    const admitted = await admitBytes(hop, paid, request)
    if ('kind' in admitted) return admitted
    const startedMs = deps.clock.nowMs()
    let settling: ReturnType<typeof settle> | undefined
    // Settlement starts before the client can send its next request. Nobody waits for it here.
    const end = (end: Ended) => {
      ended = end
      const durationMs = Math.max(0, deps.clock.nowMs() - startedMs)
      const facts = { durationMs, maxOutputTokens: admitted.hold.maxOutputTokens }
      settling = settle(hop, admitted, end, facts, { free })
      track(deps, settling)
    }
    try {
      for (const write of hop.refusals?.due.splice(0) ?? []) await write()
    } catch (error) {
      end({ end: { kind: 'thrown', error }, usage: undefined, sentBytes: 0, receivedBytes: 0 })
      throw error
    }
    const result = await act(admitted.hold, end)
    const came = ended!
    if (came.end.kind === 'answered') return { result, ended: came, failed: undefined }
    const { settled } = await settling!
    if (came.end.kind === 'thrown') throw came.end.error
    const { failure, message, hint } = came.end
    const { id: receiptId } = settled.ref
    const failed = { kind: 'failed' as const, failure: failure.failure, reason: message, hint, receiptId }
    return { result, ended: came, failed }
  } finally {
    track(deps, turn.tell(ended === undefined ? { result: 'released' } : reportOf(ended)))
  }
}

function track({ pending, report }: ModelCallDeps, work: Promise<unknown>): void {
  const tracked = work.catch(report).finally(() => pending.delete(tracked))
  pending.add(tracked)
}
