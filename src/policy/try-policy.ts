/** Evaluates trial requests without a store, to show what a profile decides. */
import { CAPABILITY_NAMES, type Capability } from './capabilities.ts'
import type { Envelope } from './envelope.ts'
import { type DecisionInput, type Evaluation, evaluate, factsOfEnvelope } from './evaluate.ts'
import { gatherCandidates } from './find-grant.ts'
import type { FoundGrant } from './grant.ts'

/** The grant offered in a trial: none, one that fits in every way, or one with the named fault. */
export type TrialGrant = 'none' | 'fitting' | 'expired' | 'used_up' | 'receipt' | 'nonexistent'

const GRANT_ID = 'grant_00000000000000000000000000'
const RECEIPT_ID = 'rcpt_00000000000000000000000000'

export function trialInput(
  envelope: Envelope,
  capability: string,
  grant: TrialGrant,
  nowMs: number,
): DecisionInput {
  const id = grant === 'receipt' ? RECEIPT_ID : GRANT_ID
  const request = {
    operator: envelope.actor,
    capability,
    operation: 'try',
    target: 'trial',
    scope: envelope.task_id === null ? {} : { task_id: envelope.task_id },
    policy_envelope_id: envelope.id,
    ...(grant !== 'none' && { grant_id: id }),
  }
  return gatherCandidates(
    request,
    factsOfEnvelope(envelope),
    toFoundGrant(grant, envelope, capability, nowMs),
    nowMs,
  )
}

/** The capabilities that a profile allows directly, allows with a grant, and denies. */
export interface Summary {
  readonly allowed: readonly Capability[]
  readonly with_grant: readonly Capability[]
  readonly denied: readonly Capability[]
}

export async function summarise(envelope: Envelope, policyText: string, nowMs: number): Promise<Summary> {
  const summary: Record<keyof Summary, Capability[]> = { allowed: [], with_grant: [], denied: [] }
  const evaluateCapability = (capability: Capability, grant: TrialGrant): Promise<Evaluation> =>
    evaluate(trialInput(envelope, capability, grant, nowMs), policyText)
  for (const capability of CAPABILITY_NAMES) {
    if ((await evaluateCapability(capability, 'none')).effect === 'allow') summary.allowed.push(capability)
    else if ((await evaluateCapability(capability, 'fitting')).effect === 'allow')
      summary.with_grant.push(capability)
    else summary.denied.push(capability)
  }
  return summary
}

function toFoundGrant(
  grant: TrialGrant,
  envelope: Envelope,
  capability: string,
  nowMs: number,
): FoundGrant | null {
  if (grant === 'none') return null
  if (grant === 'receipt') return { found: 'receipt', id: RECEIPT_ID }
  if (grant === 'nonexistent') return { found: 'nothing', id: GRANT_ID }
  return {
    found: 'grant',
    id: GRANT_ID,
    capability,
    subject: envelope.actor,
    scope: envelope.task_id === null ? 'any' : { task_id: envelope.task_id },
    target: { ref: 'trial' },
    operations: ['try'],
    expires_at_ms: grant === 'expired' ? nowMs : nowMs + 1,
    uses_left: grant === 'used_up' ? 0 : 1,
    revoked: false,
  }
}
