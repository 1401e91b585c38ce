import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FAILURE_KINDS, type FailureKind } from '../adapters/adapter.ts'
import { decideFailover, type FailedHop } from './decide-failover.ts'
import type { FailoverPolicy } from './failover-policy.ts'

const rule = (from: string, to: string, on: FailureKind[] = ['rate_limited', 'timeout']) => ({
  from_provider_id: from,
  to_provider_id: to,
  on,
  reason: 'configured',
  requires_receipt: true as const,
})

const policy = (changes: Partial<FailoverPolicy> = {}): FailoverPolicy => ({
  id: 'failover_team',
  rules: [rule('a', 'b'), rule('b', 'c'), rule('a', 'c')],
  denied_provider_ids: [],
  stop_reasons: [],
  ...changes,
})

const hop = (changes: Partial<FailedHop> = {}): FailedHop => ({
  from: 'a',
  failure: 'rate_limited',
  contentPassedOn: false,
  tried: ['a'],
  ...changes,
})

test('follows the first rule that matches the provider and the failure', () => {
  expect(decideFailover(policy(), hop())).toEqual({
    status: 'allowed',
    rule: 'failover.rule',
    to: 'b',
    ruleIndex: 0,
    reason: 'configured',
  })
})

test('skips a rule for other failures', () => {
  const rules = [rule('a', 'b', ['timeout']), rule('a', 'c', ['rate_limited'])]
  expect(decideFailover(policy({ rules }), hop())).toMatchObject({ status: 'allowed', to: 'c', ruleIndex: 1 })
})

test('does not continue to a later rule when the first one leads to a denied provider', () => {
  const decision = decideFailover(policy({ denied_provider_ids: ['b'] }), hop())
  expect(decision).toMatchObject({ status: 'denied', rule: 'failover.denied_provider', to: 'b' })
})

test('a stop reason overrides a rule', () => {
  const decision = decideFailover(policy({ stop_reasons: ['rate_limited'] }), hop())
  expect(decision).toMatchObject({ status: 'stopped', rule: 'failover.stop_reason' })
})

test('stops after a part of the response was forwarded', () => {
  const decision = decideFailover(policy(), hop({ contentPassedOn: true }))
  expect(decision).toMatchObject({ status: 'stopped', rule: 'failover.content_passed_on' })
})

test('never goes in a circle', () => {
  const rules = [rule('a', 'b'), rule('b', 'a')]
  const decision = decideFailover(policy({ rules }), hop({ from: 'b', tried: ['a', 'b'] }))
  expect(decision).toMatchObject({ status: 'denied', rule: 'failover.already_tried', to: 'a' })
})

test('denies when no rule matches', () => {
  expect(decideFailover(policy(), hop({ from: 'c' }))).toMatchObject({
    status: 'denied',
    rule: 'failover.no_rule',
  })
  expect(decideFailover(policy(), hop({ failure: 'unauthorized' }))).toMatchObject({ status: 'denied' })
})

test('a policy for one envelope does not apply to another', () => {
  const bound = policy({ policy_envelope_id: 'policy_team' })
  expect(decideFailover(bound, hop({ policyEnvelopeId: 'policy_team' })).status).toBe('allowed')
  expect(decideFailover(bound, hop({ policyEnvelopeId: 'policy_other' })).rule).toBe('failover.envelope')
  expect(decideFailover(bound, hop()).rule).toBe('failover.envelope')
})

const id = fc.constantFrom('a', 'b', 'c', 'd')
const kinds = fc.uniqueArray(fc.constantFrom(...FAILURE_KINDS))
const anyPolicy = fc.record({
  id: fc.constant('p'),
  rules: fc.array(
    fc.record({
      from_provider_id: id,
      to_provider_id: id,
      on: kinds,
      reason: fc.constant('r'),
      requires_receipt: fc.constant(true as const),
    }),
    { maxLength: 8 },
  ),
  denied_provider_ids: fc.uniqueArray(id),
  stop_reasons: kinds,
})
const anyHop = fc.record({
  from: id,
  failure: fc.constantFrom(...FAILURE_KINDS),
  contentPassedOn: fc.boolean(),
  tried: fc.uniqueArray(id),
})

test('only follows rules, to a provider that is neither denied nor tried, before any content', () => {
  fc.assert(
    fc.property(anyPolicy, anyHop, (policy, hop) => {
      const decision = decideFailover(policy, hop)
      if (decision.status !== 'allowed') return
      const first = policy.rules.find(
        ({ from_provider_id, on }) => from_provider_id === hop.from && on.includes(hop.failure),
      )
      expect(first?.to_provider_id).toBe(decision.to)
      expect([hop.from, ...hop.tried, ...policy.denied_provider_ids]).not.toContain(decision.to)
      expect(policy.stop_reasons).not.toContain(hop.failure)
      expect(hop.failure).not.toBe('cancelled')
      expect(hop.contentPassedOn).toBe(false)
    }),
  )
})

test('every chain of hops ends', () => {
  fc.assert(
    fc.property(anyPolicy, fc.constantFrom(...FAILURE_KINDS), (policy, failure) => {
      const tried = ['a']
      for (;;) {
        const decision = decideFailover(policy, {
          from: tried.at(-1)!,
          failure,
          contentPassedOn: false,
          tried,
        })
        if (decision.status !== 'allowed') break
        tried.push(decision.to)
        expect(tried.length).toBeLessThanOrEqual(4)
      }
    }),
  )
})
