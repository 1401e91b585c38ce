/** The starting point of policy tests: an envelope, a request and a grant that fit each other. */

import { type InProcessStore, inProcessStore } from '../../test/in-process-store.ts'
import type { DecisionRequestInput } from './decision-request.ts'
import { buildEnvelope, createEnvelope, type Envelope, type EnvelopeOptions } from './envelope.ts'
import type { GrantTerms } from './grant.ts'
import { createGrant } from './grants.ts'
import { readBuiltInPolicy } from './profiles.ts'

export const START_MS = Date.parse('2026-03-01T12:00:00Z')
export const POLICY_OPERATOR = 'local-user:ada'

export const DECISION_REQUEST: DecisionRequestInput = {
  operator: POLICY_OPERATOR,
  capability: 'shell.test',
  operation: 'run',
  target: 'unit-tests',
  scope: { task_id: 'task-1' },
  policy_envelope_id: 'policy_task-1',
}

export const TERMS: GrantTerms = {
  capability: 'shell.test',
  subject: POLICY_OPERATOR,
  scope: { task_id: 'task-1' },
  target: { ref: 'unit-tests' },
  operations: ['run'],
  approved_by: POLICY_OPERATOR,
}

/** A clock that changes only when a test sets it. */
export class TestClock {
  #ms = START_MS
  nowMs(): number {
    return this.#ms
  }
  advance(ms: number): void {
    this.#ms += ms
  }
}

export type BuiltIn = 'strict' | 'trusted-local' | 'automation'

export async function envelopeFor(
  profile: BuiltIn,
  changes: Partial<EnvelopeOptions> = {},
): Promise<Envelope> {
  return buildEnvelope({
    taskId: 'task-1',
    actor: POLICY_OPERATOR,
    profile,
    failOpen: profile === 'trusted-local',
    policyText: readBuiltInPolicy(profile),
    nowMs: START_MS,
    ...changes,
  })
}

/** Returns a store that contains one envelope. */
export async function storeWith(
  profile: BuiltIn,
  changes: Partial<EnvelopeOptions> = {},
): Promise<{ readonly store: InProcessStore; readonly clock: TestClock }> {
  const clock = new TestClock()
  const store = inProcessStore(clock)
  await createEnvelope(store, await envelopeFor(profile, changes), readBuiltInPolicy(profile), {
    operator: POLICY_OPERATOR,
  })
  return { store, clock }
}

export async function grantIn(
  store: InProcessStore,
  changes: Partial<GrantTerms> = {},
  expiresAtMs?: number,
): Promise<string> {
  const options = expiresAtMs === undefined ? {} : { expiresAtMs }
  return (await createGrant(store, { ...TERMS, ...changes }, options)).grant.id
}
