/** What policy's tests start from: an envelope, a request, a grant, each fitting the others. */

import { type InProcessStore, inProcessStore } from '../../test/in-process-store.ts'
import { buildEnvelope, createEnvelope, type Envelope, type EnvelopeOptions } from './envelope.ts'
import type { GrantTerms } from './grant.ts'
import { createGrant } from './grants.ts'
import { builtInText } from './profiles.ts'
import type { DecisionRequestInput } from './request.ts'

export const START_MS = Date.parse('2026-03-01T12:00:00Z')
export const OPERATOR = 'local-user:ada'

export const REQUEST: DecisionRequestInput = {
  operator: OPERATOR,
  capability: 'shell.test',
  operation: 'run',
  target: 'unit-tests',
  scope: { task_id: 'task-1' },
  policy_envelope_id: 'policy_task-1',
}

export const TERMS: GrantTerms = {
  capability: 'shell.test',
  subject: OPERATOR,
  scope: { task_id: 'task-1' },
  target: { ref: 'unit-tests' },
  operations: ['run'],
  approved_by: OPERATOR,
}

/** Time that stands still until it is told otherwise. */
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
    actor: OPERATOR,
    profile,
    failOpen: profile === 'trusted-local',
    policyText: builtInText(profile),
    nowMs: START_MS,
    ...changes,
  })
}

/** A store with one envelope in it. */
export async function storeWith(
  profile: BuiltIn,
  changes: Partial<EnvelopeOptions> = {},
): Promise<{ readonly store: InProcessStore; readonly clock: TestClock }> {
  const clock = new TestClock()
  const store = inProcessStore(clock)
  await createEnvelope(store, await envelopeFor(profile, changes), builtInText(profile), {
    operator: OPERATOR,
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
