/** The receipts of calls that were refused before policy was asked, because of the provider itself. */
import { redactValue } from '../../receipts/redaction/redact.ts'
import { type Denial, type Hop, linksOf, type Unanswered } from './hop.ts'
import type { Refusal } from './route.ts'

export async function denyHere(
  hop: Hop,
  { facts, ...denial }: Omit<Denial, 'receiptId'> & Pick<Refusal, 'facts'>,
): Promise<Unanswered> {
  const { rule, retryAtMs, failure } = denial
  if (hop.refusals?.isSingle() === false) {
    hop.refusals.count(rule, hop.record.id)
    return { kind: 'denied', ...denial, receiptId: undefined }
  }
  hop.refusals?.spend()
  const { id } = await hop.place.log.append({
    kind: 'denial',
    status: 'blocked',
    ...actionOf(hop),
    decision: { effect: 'deny', rule, missing: [], replayable: !redactValue(facts).redacted, input: facts },
    metadata: {
      denied_kind: 'provider_action',
      ...(retryAtMs !== undefined && { retry_at_ms: retryAtMs }),
      ...(failure !== undefined && { last_failure: failure }),
    },
  })
  hop.written.push(id)
  return { kind: 'denied', ...denial, receiptId: id }
}

/** Cancelled before anything was asked or held. */
export async function skipHere(hop: Hop): Promise<Unanswered> {
  const { id } = await hop.place.log.append({
    kind: 'provider_action',
    status: 'skipped',
    ...actionOf(hop),
    metadata: { failure: 'cancelled' },
  })
  hop.written.push(id)
  return {
    kind: 'failed',
    failure: 'cancelled',
    reason: `the call to ${hop.record.id} was cancelled before it began`,
    hint: '',
    receiptId: id,
    contentPassedOn: false,
  }
}

function actionOf(hop: Hop) {
  const { call, record } = hop
  return {
    operator: call.operator,
    capability: 'model.chat',
    operation: 'chat',
    target: record.id,
    links: { ...linksOf(hop), ...call.scope, policy_envelope_id: call.policyEnvelopeId },
  }
}
