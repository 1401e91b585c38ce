/** Makes a recorded decision again, from what its receipt kept and the policy text of that digest. */
import { isDeepStrictEqual } from 'node:util'
import type { Receipt } from '../receipts/schema.ts'
import { policyDigest } from './cedar.ts'
import { type DecisionInput, decisionInput, evaluate } from './evaluate.ts'

export type Replay = 'agrees' | 'differs' | 'not_replayable' | 'document_missing'

/** `documents` gives the text kept under a digest. */
export async function replayDecision(
  body: Pick<Receipt['body'], 'operator' | 'capability' | 'operation' | 'target' | 'links' | 'decision'>,
  documents: (digest: string) => string | undefined,
): Promise<Replay> {
  const { decision } = body
  if (decision === undefined || !decision.replayable || !isPolicyInput(decision.input))
    return 'not_replayable'
  const parsed = decisionInput.safeParse(decision.input)
  if (!parsed.success) return 'differs'
  const input = parsed.data
  if (!describes(input, body)) return 'differs'

  const digest = input.envelope?.policy_digest
  const text = digest === undefined ? undefined : documents(digest)
  if (digest !== undefined && (text === undefined || policyDigest(text) !== digest)) return 'document_missing'
  const { effect, rule, missing, grantOutcome } = await evaluate(input, text)
  const again = { effect, rule, missing, grantOutcome }
  const then = {
    effect: decision.effect,
    rule: decision.rule,
    missing: decision.missing,
    grantOutcome: body.links.grant_outcome,
  }
  return isDeepStrictEqual(again, then) ? 'agrees' : 'differs'
}

/** Budgets keep other inputs in the same place. */
function isPolicyInput(input: unknown): boolean {
  return (
    typeof input === 'object' &&
    input !== null &&
    'schema' in input &&
    input.schema === 'craik.policy_decision/1'
  )
}

/** The receipt tells of the same request as the input that it was decided on. */
function describes(
  { request, envelope }: DecisionInput,
  { operator, capability, operation, target, links, decision }: Parameters<typeof replayDecision>[0],
): boolean {
  return (
    request.operator === operator &&
    request.capability === capability &&
    request.operation === operation &&
    request.target === target &&
    request.grant_id === links.grant_id &&
    request.policy_envelope_id === links.policy_envelope_id &&
    envelope?.policy_digest === decision?.policy_digest
  )
}
