/** The receipt of a failover decision: the failed call, its failure, and whether another provider can replace it. */
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { redactValue } from '../../receipts/redaction/redact.ts'
import type { ModelCall } from '../dispatch-types.ts'
import type { FailedHop, FailoverDecision } from './decide-failover.ts'
import type { FailoverPolicy } from './failover-policy.ts'
import { FAILOVER_CAPABILITY, failoverFields, inputOf } from './failover-record.ts'

export function writeHop(
  log: ReceiptLog,
  call: Pick<ModelCall, 'operator' | 'scope' | 'links' | 'policyEnvelopeId'>,
  policy: FailoverPolicy,
  hop: FailedHop,
  decision: FailoverDecision,
  failedReceiptId: string | undefined,
): Promise<ReceiptRef> {
  const { effect, status, rule, target } = failoverFields(decision, hop.from)
  const input = inputOf(policy, hop)
  return log.append({
    kind: effect === 'allow' ? 'environment_decision' : 'denial',
    status,
    operator: call.operator,
    capability: FAILOVER_CAPABILITY,
    operation: 'failover',
    target,
    links: {
      ...call.links,
      ...call.scope,
      policy_envelope_id: call.policyEnvelopeId,
      provider_id: hop.from,
      ...(failedReceiptId !== undefined && { receipt_ids: [failedReceiptId] }),
      ...(decision.to !== undefined && { target_id: decision.to }),
    },
    decision: { effect, rule, missing: [], replayable: !redactValue(input).redacted, input },
    metadata: {
      failover_policy_id: policy.id,
      failure: hop.failure,
      ...(decision.ruleIndex !== undefined && { rule_index: decision.ruleIndex }),
    },
  })
}
