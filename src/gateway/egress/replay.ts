/** Makes a recorded refusal of egress again, from what its receipt kept and the rules of that digest. */
import { hash } from 'node:crypto'
import type { replayDecision } from '../../policy/replay.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { operationOf } from './decide.ts'
import { type EgressFacts, egressFacts, parseRulesDocument, refusingRule } from './facts.ts'

/** Whether the receipt holds a decision of this kind; other rooms keep other inputs in the same place. */
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
  const agrees = decision.effect === 'deny' && decision.rule === refusedBy(facts, text)
  return agrees && decision.missing.length === 0 ? 'agrees' : 'differs'
}

function refusedBy(facts: EgressFacts, text: string | undefined): string | undefined {
  try {
    return refusingRule(facts, text === undefined ? [] : parseRulesDocument(text))
  } catch {
    return undefined
  }
}

function digestOf(text: string): string {
  return `sha256:${hash('sha256', text)}`
}
