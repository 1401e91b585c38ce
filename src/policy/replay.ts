/** Computes a recorded decision again, from the input in its receipt and the policy text with that digest. */
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

/** The parts of a receipt that describe its decision. */
export type DecidedBody = Pick<
  Receipt['body'],
  'kind' | 'operator' | 'capability' | 'operation' | 'target' | 'links' | 'decision'
>

export type Replay = 'agrees' | 'differs' | 'not_replayable' | 'document_missing'

/** Replays a decision. `documents` returns the text stored under a digest. */
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
 * Evaluates the policy again. A denial because the engine failed cannot be reproduced, because the engine works now. It
 * passes only if it equals the denial without an engine and its receipt is a denial.
 */
export async function compare(
  body: DecidedBody,
  input: DecisionInput,
  text: string | undefined,
): Promise<Replay> {
  if (matches(body, await evaluate(input, text))) return 'agrees'
  const without = await evaluate(input, undefined)
  const engineFailed = body.kind === 'denial' && without.rule === POLICY_ERROR_RULE && matches(body, without)
  return engineFailed ? 'not_replayable' : 'differs'
}

function matches({ decision, links }: DecidedBody, evaluation: Evaluation): boolean {
  const { effect, rule, missing, grantOutcome } = evaluation
  const then = {
    effect: decision?.effect,
    rule: decision?.rule,
    missing: decision?.missing,
    grantOutcome: links.grant_outcome,
  }
  return isDeepStrictEqual({ effect, rule, missing, grantOutcome }, then)
}

/** Budgets store other inputs in the same field. */
function isPolicyInput(input: unknown): boolean {
  return (
    typeof input === 'object' &&
    input !== null &&
    'schema' in input &&
    input.schema === 'craik.policy_decision/1'
  )
}

/** Returns whether the receipt describes the same request as the input of its decision. */
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
