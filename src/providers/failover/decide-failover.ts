/** Decides whether a failed call can continue with another provider: a pure function of the policy and the failure. */
import type { FailureKind } from '../adapters/adapter.ts'
import type { FailoverPolicy, FailoverRule } from './failover-policy.ts'

export interface FailedHop {
  /** The provider whose call failed. */
  readonly from: string
  readonly failure: FailureKind
  /** A part of the response has reached the caller, which cannot be undone. */
  readonly contentPassedOn: boolean
  /** Every provider that this call has tried. */
  readonly tried: readonly string[]
  /** The policy envelope of the call. */
  readonly policyEnvelopeId?: string
}

export type FailoverDecision =
  | {
      readonly status: 'allowed'
      readonly rule: 'failover.rule'
      readonly to: string
      /** The index of the policy's rule, from 0. */
      readonly ruleIndex: number
      readonly reason: string
    }
  | {
      readonly status: 'denied' | 'stopped'
      readonly rule: string
      /** The provider that a rule named. */
      readonly to?: string
      readonly ruleIndex?: number
      readonly reason: string
    }

/** The first of these that applies decides: a stop reason, forwarded content, the envelope, the first matching rule. */
export function decideFailover(policy: FailoverPolicy, hop: FailedHop): FailoverDecision {
  const { from, failure, contentPassedOn, tried, policyEnvelopeId } = hop
  if (failure === 'cancelled')
    return { status: 'stopped', rule: 'failover.cancelled', reason: 'the caller cancelled the call' }
  if (policy.stop_reasons.includes(failure))
    return { status: 'stopped', rule: 'failover.stop_reason', reason: `${failure} is a stop reason` }
  if (contentPassedOn)
    return {
      status: 'stopped',
      rule: 'failover.content_passed_on',
      reason: 'part of the response was already forwarded',
    }
  if (policy.policy_envelope_id !== undefined && policy.policy_envelope_id !== policyEnvelopeId)
    return {
      status: 'denied',
      rule: 'failover.envelope',
      reason: `the failover policy applies only under envelope ${policy.policy_envelope_id}`,
    }
  const ruleIndex = policy.rules.findIndex((rule) => fits(rule, from, failure))
  const rule = policy.rules[ruleIndex]
  if (rule === undefined)
    return {
      status: 'denied',
      rule: 'failover.no_rule',
      reason: `no rule for ${from} on ${failure}`,
    }
  const to = rule.to_provider_id
  if (policy.denied_provider_ids.includes(to))
    return { status: 'denied', rule: 'failover.denied_provider', to, ruleIndex, reason: `${to} is denied` }
  if (to === from || tried.includes(to))
    return {
      status: 'denied',
      rule: 'failover.already_tried',
      to,
      ruleIndex,
      reason: `${to} was already tried`,
    }
  return { status: 'allowed', rule: 'failover.rule', to, ruleIndex, reason: rule.reason }
}

function fits({ from_provider_id, on }: FailoverRule, from: string, failure: FailureKind): boolean {
  return from_provider_id === from && on.includes(failure)
}
