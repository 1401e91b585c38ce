/** Makes a recorded decision again, from what its receipt kept and the policy text of that digest. */
import { isDeepStrictEqual } from 'node:util'
import type { Receipt } from '../receipts/schema.ts'
import { policyDigest } from './cedar.ts'
import {
  type DecisionInput,
  decisionInput,
  type Evaluation,
  evaluate,
  POLICY_ERROR_RULE,
} from './evaluate.ts'

/** What of a receipt says how it was decided. */
export type DecidedBody = Pick<
  Receipt['body'],
  'kind' | 'operator' | 'capability' | 'operation' | 'target' | 'links' | 'decision'
>

export type Replay = 'agrees' | 'differs' | 'not_replayable' | 'document_missing'

/** `documents` gives the text kept under a digest. */
export async function replayDecision(
  body: DecidedBody,
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
  return compare(body, input, text)
}

/**
 * The policy is asked again. A denial because the engine failed then cannot be made again, for the engine works now;
 * it is let pass as exactly the denial that no engine leads to, on the receipt of one that let nothing happen.
 */
export async function compare(
  body: DecidedBody,
  input: DecisionInput,
  text: string | undefined,
): Promise<Replay> {
  if (says(body, await evaluate(input, text))) return 'agrees'
  const without = await evaluate(input, undefined)
  const engineFailed = body.kind === 'denial' && without.rule === POLICY_ERROR_RULE && says(body, without)
  return engineFailed ? 'not_replayable' : 'differs'
}

function says({ decision, links }: DecidedBody, evaluation: Evaluation): boolean {
  const { effect, rule, missing, grantOutcome } = evaluation
  const then = {
    effect: decision?.effect,
    rule: decision?.rule,
    missing: decision?.missing,
    grantOutcome: links.grant_outcome,
  }
  return isDeepStrictEqual({ effect, rule, missing, grantOutcome }, then)
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
