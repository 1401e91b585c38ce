/** Repeats a recorded sandbox decision with the input from its receipt and the policy text of the recorded digest. */
import { isDeepStrictEqual } from 'node:util'
import { policyDigest } from '../policy/cedar.ts'
import { compare, type DecidedBody, type Replay } from '../policy/replay.ts'
import {
  evaluateSandboxRequest,
  receiptTarget,
  type SandboxFacts,
  sandboxFacts,
} from './evaluate-sandbox-request.ts'

/** Returns whether the receipt contains a sandbox decision. Other modules store other inputs in the same field. */
export function isSandboxDecision({ decision }: Pick<DecidedBody, 'decision'>): boolean {
  const input = decision?.input
  return (
    typeof input === 'object' &&
    input !== null &&
    'schema' in input &&
    input.schema === 'craik.sandbox_decision/1'
  )
}

/** `documents` returns the stored text for a digest. */
export async function replaySandboxDecision(
  body: DecidedBody,
  documents: (digest: string) => string | undefined,
): Promise<Replay> {
  const { decision, links } = body
  if (decision === undefined || !decision.replayable || !isSandboxDecision(body)) return 'not_replayable'
  const parsed = sandboxFacts.safeParse(decision.input)
  if (!parsed.success || !matchesReceipt(parsed.data, body)) return 'differs'
  const facts = parsed.data
  const { effect, rule, missing, policy_digest } = decision
  const then = { effect, rule, missing, grantOutcome: links.grant_outcome }

  const refusal = evaluateSandboxRequest(facts)
  if (refusal !== undefined) {
    const { rule, missing, grantOutcome } = refusal
    const again = { effect: 'deny', rule, missing, grantOutcome }
    return facts.policy === null && isDeepStrictEqual(again, then) ? 'agrees' : 'differs'
  }
  if (facts.policy === null) return 'differs'
  const digest = facts.policy.envelope?.policy_digest
  if (digest !== policy_digest) return 'differs'
  const text = digest === undefined ? undefined : documents(digest)
  if (digest !== undefined && (text === undefined || policyDigest(text) !== digest)) return 'document_missing'
  return compare(body, facts.policy, text)
}

/** Returns whether the receipt, the facts and the input of the policy describe the same request. */
function matchesReceipt(
  facts: SandboxFacts,
  { operator, capability, operation, target, links }: DecidedBody,
): boolean {
  const { request, action, specifics, policy } = facts
  const ref = action.form === 'reference' ? action.ref : undefined
  const same =
    request.operator === operator &&
    request.capability === capability &&
    request.operation === operation &&
    request.backend_id === links.backend_id &&
    request.policy_envelope_id === links.policy_envelope_id &&
    request.capability_grant_id === links.grant_id &&
    receiptTarget(facts) === target &&
    (specifics.kind === 'browser_tool' || ref === links.command_ref)
  if (!same || policy === null) return same
  const requested = policy.request
  const remote = specifics.kind === 'remote_shell' ? specifics.target?.id : undefined
  return (
    requested.operator === operator &&
    requested.capability === capability &&
    requested.operation === operation &&
    requested.target === (remote === undefined ? ref : `${remote}/${ref}`) &&
    requested.policy_envelope_id === request.policy_envelope_id &&
    requested.grant_id === request.capability_grant_id &&
    isDeepStrictEqual(requested.scope, request.scope)
  )
}
