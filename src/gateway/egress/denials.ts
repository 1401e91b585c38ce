/** How refusals of egress are added up. */
import { Denials, type DenialTerms } from '../denials.ts'
import { type EgressFacts, MAX_LISTED } from './facts.ts'
import type { EgressRequest } from './rules.ts'

export function egressDenials(write: DenialTerms<EgressFacts>['write']): Denials<EgressFacts> {
  return new Denials({ write, together })
}

/** What makes one refusal like another: its rule, and the rules that were looked at. */
export function groundOf(facts: EgressFacts, rule: string): string {
  return facts.ground === 'rules' ? `${rule} ${facts.rules_digest}` : facts.ground
}

function together(one: EgressFacts, other: EgressFacts): EgressFacts {
  const told: EgressRequest[] = [...one.asked]
  for (const asked of other.asked) {
    const isKnown = told.some(({ host, port }) => host === asked.host && port === asked.port)
    if (!isKnown && told.length < MAX_LISTED) told.push(asked)
  }
  return { ...one, count: one.count + other.count, asked: told } as EgressFacts
}
