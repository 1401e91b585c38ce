/** Asks for leave to make one call: policy, quotas and budgets decide in one transaction, on the bytes to be sent. */
import { deniedError } from '../../policy/decide.ts'
import { type DecisionRequest, parseRequest } from '../../policy/request.ts'
import type { Adapter } from '../adapters/adapter.ts'
import type { ModelRequest } from '../conversation.ts'
import { MISSING_CAP_TOKENS } from '../ledger/judge.ts'
import { type AdmitOutput, admitCall } from '../ledger/tokens.ts'
import type { ProviderRecord } from '../record.ts'
import { type Attempt, type Hop, idsOf, linksOf } from './hop.ts'
import type { Route } from './route.ts'

/** What naming a cap adds to a body that named none, in any dialect. */
const CAP_FIELD_BYTES = 64

export interface Admission {
  readonly request: ModelRequest
  readonly body: string
  readonly admitted: Extract<AdmitOutput, { effect: 'allow' }>
}

export async function admit(hop: Hop, route: Route, adapter: Adapter): Promise<Admission | Attempt> {
  const { place, call, record, written } = hop
  const { model, billing } = route
  const wanted = call.maxOutputTokens ?? (adapter.mayOmitOutputCap ? undefined : MISSING_CAP_TOKENS)
  const request: ModelRequest = { model, messages: call.messages, tools: call.tools, maxOutputTokens: wanted }
  const body = adapter.encode(request)
  const inputBytes = Buffer.byteLength(body) + (wanted === undefined ? CAP_FIELD_BYTES : 0)
  const priced = billing === 'metered' ? await knownPrice(route, inputBytes, place.clock.nowMs()) : null
  const asked = await decisionRequest(hop, route)
  const admitted = await place.store.write(admitCall, {
    request: asked,
    receipt: {
      kind: 'provider_action',
      links: linksOf(hop),
      metadata: { model, dialect: route.dialect, transport: call.transport },
    },
    owner: place.log.owner,
    call: {
      providerId: record.id,
      model,
      billing,
      price: priced?.price ?? null,
      ...(priced && { priceDigest: priced.digest }),
      inputBytes,
      maxOutputTokens: wanted ?? null,
      capCanBeSet: true,
      ...(call.sandboxId !== undefined && { sandboxId: call.sandboxId }),
    },
  })
  if (admitted.effect === 'allow') {
    written.push(...idsOf(admitted.ref, admitted.budgetReceipt))
    return { request, body, admitted }
  }
  return deniedAttempt(hop, admitted, asked)
}

/** Of whoever is really called. The table is large, and calls to local models never need it. */
async function knownPrice({ record, model, baseUrl }: Route, inputBytes: number, nowMs: number) {
  const { priceOf } = await import('../prices.ts')
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
  { written }: Hop,
  denial: Extract<AdmitOutput, { effect: 'deny' }>,
  asked: DecisionRequest,
): Attempt {
  if (denial.by === 'policy') {
    const { evaluation, ref, profile } = denial.decision
    const { rule, missing, grantOutcome, grantWouldHelp } = evaluation
    const error = deniedError(
      {
        effect: 'deny',
        rule,
        missing,
        grantOutcome,
        grantWouldHelp,
        receipt: ref,
        ...(profile && { profile }),
      },
      asked,
    )
    written.push(ref.id)
    return {
      kind: 'denied',
      by: 'policy',
      rule,
      reason: error.message,
      hint: error.hint,
      receiptId: ref.id,
    }
  }
  const { by, rule, reason, hint, retryAtMs, receipt } = denial
  written.push(receipt.id)
  return {
    kind: 'denied',
    by,
    rule,
    reason,
    hint,
    ...(retryAtMs !== undefined && { retryAtMs }),
    receiptId: receipt.id,
  }
}
