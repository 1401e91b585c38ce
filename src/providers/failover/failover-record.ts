/** The recorded form of a failover decision in its receipt, and its replay. */
import { z } from 'zod'
import { reference } from '../../policy/decision-request.ts'
import type { Replay } from '../../policy/replay.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { FAILURE_KINDS } from '../adapters/adapter.ts'
import { decideFailover, type FailedHop, type FailoverDecision } from './decide-failover.ts'
import type { FailoverPolicy } from './failover-policy.ts'

const SCHEMA = 'craik.failover_decision/1'
export const FAILOVER_CAPABILITY = 'provider.failover'

const failure = z.enum(FAILURE_KINDS)

/** Contains only the rules for the provider that failed: no other rule can decide. */
const failoverInput = z.strictObject({
  schema: z.literal(SCHEMA),
  from: reference,
  failure,
  content_passed_on: z.boolean(),
  tried: z.array(reference),
  envelope: reference.nullable(),
  only_under: reference.nullable(),
  stop_reasons: z.array(failure),
  denied: z.array(reference),
  rules: z.array(z.strictObject({ to: reference, on: z.array(failure) })),
})

type FailoverInput = z.infer<typeof failoverInput>

/** Returns all input of the decision. Reasons are free text, and stay in the policy file. */
export function inputOf(policy: FailoverPolicy, hop: FailedHop): FailoverInput {
  return {
    schema: SCHEMA,
    from: hop.from,
    failure: hop.failure,
    content_passed_on: hop.contentPassedOn,
    tried: [...hop.tried],
    envelope: hop.policyEnvelopeId ?? null,
    only_under: policy.policy_envelope_id ?? null,
    stop_reasons: policy.stop_reasons,
    denied: policy.denied_provider_ids,
    rules: policy.rules
      .filter(({ from_provider_id }) => from_provider_id === hop.from)
      .map(({ to_provider_id, on }) => ({ to: to_provider_id, on })),
  }
}

export function isFailoverDecision({ decision }: Pick<Receipt['body'], 'decision'>): boolean {
  const input = decision?.input
  return typeof input === 'object' && input !== null && 'schema' in input && input.schema === SCHEMA
}

/** Returns the fields of a decision's receipt, without the message. */
export function failoverFields(decision: FailoverDecision, from: string) {
  const { status, rule, to } = decision
  return {
    effect: status === 'allowed' ? ('allow' as const) : ('deny' as const),
    status: ({ allowed: 'passed', denied: 'denied', stopped: 'blocked' } as const)[status],
    rule,
    target: to ?? from,
  }
}

export async function replayFailover(
  body: Pick<Receipt['body'], 'capability' | 'status' | 'target' | 'links' | 'decision'>,
): Promise<Replay> {
  const { decision, links } = body
  if (decision === undefined || !decision.replayable || !isFailoverDecision(body)) return 'not_replayable'
  const parsed = failoverInput.safeParse(decision.input)
  if (!parsed.success) return 'differs'
  const input = parsed.data
  if (
    body.capability !== FAILOVER_CAPABILITY ||
    links.provider_id !== input.from ||
    links.policy_envelope_id !== (input.envelope ?? undefined)
  )
    return 'differs'
  const again = failoverFields(decideAgain(input), input.from)
  const same =
    again.effect === decision.effect &&
    again.rule === decision.rule &&
    again.status === body.status &&
    again.target === body.target
  return same ? 'agrees' : 'differs'
}

function decideAgain(input: FailoverInput): FailoverDecision {
  const policy: FailoverPolicy = {
    id: 'recorded',
    rules: input.rules.map(({ to, on }) => ({
      from_provider_id: input.from,
      to_provider_id: to,
      on,
      reason: '',
      requires_receipt: true,
    })),
    denied_provider_ids: input.denied,
    stop_reasons: input.stop_reasons,
    ...(input.only_under !== null && { policy_envelope_id: input.only_under }),
  }
  return decideFailover(policy, {
    from: input.from,
    failure: input.failure,
    contentPassedOn: input.content_passed_on,
    tried: input.tried,
    ...(input.envelope !== null && { policyEnvelopeId: input.envelope }),
  })
}
