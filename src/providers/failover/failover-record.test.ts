import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { POLICY_OPERATOR, TestClock } from '../../policy/policy.fixture.ts'
import { FAILURE_KINDS } from '../adapters/adapter.ts'
import { decideFailover } from './decide-failover.ts'
import type { FailoverPolicy } from './failover-policy.ts'
import { replayFailover } from './failover-record.ts'
import { writeHop } from './hop-receipt.ts'

const CALL = {
  operator: POLICY_OPERATOR,
  scope: { run_id: 'run-1' },
  links: {},
  policyEnvelopeId: 'policy_team',
}
const id = fc.constantFrom('provider_a', 'provider_b', 'provider_c')
const kinds = fc.uniqueArray(fc.constantFrom(...FAILURE_KINDS))
const anyPolicy: fc.Arbitrary<FailoverPolicy> = fc.record({
  id: fc.constant('failover_team'),
  rules: fc.array(
    fc.record({
      from_provider_id: id,
      to_provider_id: id,
      on: kinds,
      reason: fc.constant('because'),
      requires_receipt: fc.constant(true as const),
    }),
    { maxLength: 4 },
  ),
  denied_provider_ids: fc.uniqueArray(id),
  stop_reasons: kinds,
})
const anyHop = fc.record({
  from: id,
  failure: fc.constantFrom(...FAILURE_KINDS),
  contentPassedOn: fc.boolean(),
  tried: fc.uniqueArray(id),
  policyEnvelopeId: fc.constant('policy_team'),
})

async function writeAndRead(policy: FailoverPolicy, hop: Parameters<typeof decideFailover>[1]) {
  const store = inProcessStore(new TestClock())
  await writeHop(store.log, CALL, policy, hop, decideFailover(policy, hop), 'rcpt_1')
  return (await store.bodies()).at(-1)!
}

test('replay gives every recorded decision again', async () => {
  await fc.assert(
    fc.asyncProperty(anyPolicy, anyHop, async (policy, hop) => {
      expect(await replayFailover(await writeAndRead(policy, hop))).toBe('agrees')
    }),
    { numRuns: 60 },
  )
})

test('detects a receipt that differs from the result of its input', async () => {
  const rule = {
    from_provider_id: 'provider_a',
    to_provider_id: 'provider_b',
    on: ['timeout' as const],
    reason: 'because',
    requires_receipt: true as const,
  }
  const policy = { id: 'failover_team', rules: [rule], denied_provider_ids: [], stop_reasons: [] }
  const body = await writeAndRead(policy, {
    from: 'provider_a',
    failure: 'timeout',
    contentPassedOn: false,
    tried: ['provider_a'],
    policyEnvelopeId: 'policy_team',
  })
  const { decision } = body
  expect(await replayFailover(body)).toBe('agrees')
  expect(await replayFailover({ ...body, target: 'provider_c' })).toBe('differs')
  expect(await replayFailover({ ...body, status: 'denied' })).toBe('differs')
  expect(await replayFailover({ ...body, decision: { ...decision!, rule: 'failover.no_rule' } })).toBe(
    'differs',
  )
  expect(await replayFailover({ ...body, links: { ...body.links, provider_id: 'provider_c' } })).toBe(
    'differs',
  )
  expect(JSON.stringify(body)).not.toContain('because')
})
