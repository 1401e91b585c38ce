/** Asks for leave to make one call: policy, quotas and budgets decide in one transaction, on the bytes to be sent. */
import { lazy } from '../../lib/memoize.ts'
import { denialIn, policyDeniedError } from '../../policy/decide.ts'
import { type DecisionRequest, parseRequest } from '../../policy/decision-request.ts'
import type { Adapter } from '../adapters/adapter.ts'
import type { ModelRequest } from '../conversation.ts'
import { MISSING_CAP_TOKENS } from '../ledger/evaluate-reservation.ts'
import { hasExhaustedQuota } from '../ledger/ledger-facts.ts'
import { type AdmitOutput, admitCall, checkCall } from '../ledger/tokens.ts'
import type { ProviderRecord } from '../provider-record.ts'
import { type Hop, idsOf, linksOf, type ModelHop, type Unanswered } from './hop.ts'
import type { Route } from './route.ts'

/** What naming a cap adds to a body that named none, in any dialect. */
export const CAP_FIELD_BYTES = 64

export type Admitted = Extract<AdmitOutput, { effect: 'allow' }>

export interface Admission {
  readonly request: ModelRequest
  readonly body: string
  readonly admitted: Admitted
}

/** What is known of a request before it is sent. */
export interface Asked {
  readonly inputBytes: number
  /** Null: it names no cap. */
  readonly maxOutputTokens: number | null
  readonly capCanBeSet: boolean
  /** It can cost more than the table says, or more than its bytes tell: then no price is known. */
  readonly unpriced?: boolean
}

export async function admit(hop: ModelHop, route: Route, adapter: Adapter): Promise<Admission | Unanswered> {
  const { call } = hop
  const { model } = route
  const wanted = call.maxOutputTokens ?? (adapter.mayOmitOutputCap ? undefined : MISSING_CAP_TOKENS)
  const request: ModelRequest = { model, messages: call.messages, tools: call.tools, maxOutputTokens: wanted }
  const body = adapter.encode(request)
  const inputBytes = Buffer.byteLength(body) + (wanted === undefined ? CAP_FIELD_BYTES : 0)
  const asked = { inputBytes, maxOutputTokens: wanted ?? null, capCanBeSet: true }
  const admitted = await admitBytes(hop, route, asked)
  return 'kind' in admitted ? admitted : { request, body, admitted }
}

/** The same for a request that only its bytes are known of. */
export async function admitBytes(
  hop: Hop,
  route: Route,
  { inputBytes, maxOutputTokens, capCanBeSet, unpriced = false }: Asked,
): Promise<Admitted | Unanswered> {
  const { place, call, record, written } = hop
  const { model, billing } = route
  const hasPrice = billing === 'metered' && !unpriced
  const priced = hasPrice ? await knownPrice(route, inputBytes, place.clock.nowMs()) : null
  const asked = await decisionRequest(hop, route)
  const admitted = await place.store.write(admitCall, {
    ...admitInput(hop, route, asked),
    call: {
      providerId: record.id,
      model,
      billing,
      price: priced?.price ?? null,
      ...(priced && { priceDigest: priced.digest }),
      inputBytes,
      maxOutputTokens,
      capCanBeSet,
      ...(call.sandboxId !== undefined && { sandboxId: call.sandboxId }),
    },
  })
  if (admitted.effect === 'deny') return deniedAttempt(hop, admitted, asked)
  written.push(...idsOf(admitted.ref, admitted.budgetReceipt))
  return admitted
}

/**
 * Why a call would be denied whatever it says: its policy, or a quota of requests. Undefined: nothing stands against it so
 * far. Where a grant is there and no quota is used up, the writer is not asked.
 */
export async function refusedBeforehand(hop: Hop, route: Route): Promise<Unanswered | undefined> {
  const { place, call, record } = hop
  const asked = await decisionRequest(hop, route)
  const isBusy = () =>
    place.store.read((tables) =>
      hasExhaustedQuota(tables, record.id, call.scope.session_id, place.clock.nowMs()),
    )
  if (asked.grant_id !== undefined && !(await isBusy())) return undefined
  const denial = await place.store.write(checkCall, {
    ...admitInput(hop, route, asked),
    call: {
      providerId: record.id,
      model: route.model,
      billing: 'free',
      price: null,
      inputBytes: 0,
      maxOutputTokens: null,
      capCanBeSet: true,
      ...(call.sandboxId !== undefined && { sandboxId: call.sandboxId }),
    },
  })
  return denial === null ? undefined : deniedAttempt(hop, denial, asked)
}

function admitInput(hop: Hop, { model, dialect }: Route, request: DecisionRequest) {
  const { place, call } = hop
  const metadata = { model, dialect, transport: call.transport }
  return {
    request,
    receipt: { kind: 'provider_action' as const, links: linksOf(hop), metadata },
    owner: place.log.owner,
    isNoted: hop.refusals?.isSingle() ?? true,
  }
}

/** The table is large, and calls to local models never need it. */
const loadPrices = lazy(() => import('../prices.ts'))

/** Of whoever is really called. */
async function knownPrice({ record, model, baseUrl }: Route, inputBytes: number, nowMs: number) {
  const { priceOf } = await loadPrices()
  const metadata: ProviderRecord['metadata'] = { ...record.metadata }
  if (baseUrl !== undefined) metadata.base_url = baseUrl
  return priceOf({ provider: record.provider, metadata }, model, nowMs, inputBytes)
}

async function decisionRequest({ call, record }: Hop, { secretName }: Route): Promise<DecisionRequest> {
  const grantId = await call.grantFor(record.id)
  return parseRequest({
    operator: call.operator,
    capability: 'model.chat',
    operation: 'chat',
    target: record.id,
    scope: call.scope,
    policy_envelope_id: call.policyEnvelopeId,
    ...(grantId !== undefined && { grant_id: grantId }),
    ...(secretName !== undefined && { credential_ref: secretName }),
  })
}

function deniedAttempt(
  { written, refusals, record }: Hop,
  denial: Extract<AdmitOutput, { effect: 'deny' }>,
  asked: DecisionRequest,
): Unanswered {
  const told = denial.by === 'policy' ? byPolicy(denial.decision, asked) : denial
  const { by, rule, reason, hint, retryAtMs, receipt } = told
  if (receipt === undefined) refusals?.count(rule, record.id)
  else {
    refusals?.spend()
    written.push(receipt.id)
  }
  return {
    kind: 'denied',
    by,
    rule,
    reason,
    hint,
    ...(retryAtMs !== undefined && { retryAtMs }),
    receiptId: receipt?.id,
  }
}

type ByPolicy = Extract<AdmitOutput, { by: 'policy' }>

function byPolicy(decision: ByPolicy['decision'], asked: DecisionRequest) {
  const denied = denialIn(decision)
  const { rule, receipt } = denied
  const { message: reason, hint } = policyDeniedError(denied, asked)
  return { by: 'policy' as const, rule, reason, hint, receipt, retryAtMs: undefined }
}
