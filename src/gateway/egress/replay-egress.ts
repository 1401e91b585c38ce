/** Decides a recorded egress refusal again, from the facts in its receipt and the rules with the recorded digest. */
import { hash } from 'node:crypto'
import type { replayDecision } from '../../policy/replay.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { operationOf } from './decide-egress.ts'
import { type EgressFacts, egressFacts, parseRulesDocument, refusingRule } from './egress-facts.ts'

/** Returns whether the receipt contains an egress decision. Other modules store other inputs in the same field. */
export function isEgressDecision({ decision }: Pick<Receipt['body'], 'decision'>): boolean {
  const input = decision?.input
  return (
    typeof input === 'object' &&
    input !== null &&
    'schema' in input &&
    input.schema === 'craik.egress_decision/1'
  )
}

export const replayEgressDecision: typeof replayDecision = async (body, documents) => {
  const { decision, capability, operation } = body
  if (decision === undefined || !decision.replayable || !isEgressDecision(body)) return 'not_replayable'
  const parsed = egressFacts.safeParse(decision.input)
  if (!parsed.success || capability !== 'network.egress') return 'differs'
  const facts = parsed.data
  const [first] = facts.asked
  if (first !== undefined && operationOf(first) !== operation) return 'differs'
  const text = facts.ground === 'rules' ? documents(facts.rules_digest) : undefined
  if (facts.ground === 'rules' && (text === undefined || digestOf(text) !== facts.rules_digest))
    return 'document_missing'
  const agrees = decision.effect === 'deny' && decision.rule === refusingRuleOf(facts, text)
  return agrees && decision.missing.length === 0 ? 'agrees' : 'differs'
}

function refusingRuleOf(facts: EgressFacts, text: string | undefined): string | undefined {
  try {
    return refusingRule(facts, text === undefined ? [] : parseRulesDocument(text))
  } catch {
    return undefined
  }
}

function digestOf(text: string): string {
  return `sha256:${hash('sha256', text)}`
}
