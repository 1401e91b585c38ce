/** How refusals of egress are counted together. */
import { Denials, type DenialTerms } from '../denials.ts'
import { type EgressFacts, MAX_LISTED } from './egress-facts.ts'
import type { EgressRequest } from './rules.ts'

export function egressDenials(write: DenialTerms<EgressFacts>['write']): Denials<EgressFacts> {
  return new Denials({ write, together })
}

/** Returns the key under which refusals are counted together: the refusing rule, and the digest of the rules. */
export function groundOf(facts: EgressFacts, rule: string): string {
  return facts.ground === 'rules' ? `${rule} ${facts.rules_digest}` : facts.ground
}

function together(one: EgressFacts, other: EgressFacts): EgressFacts {
  const reported: EgressRequest[] = [...one.asked]
  for (const requested of other.asked) {
    const isKnown = reported.some(({ host, port }) => host === requested.host && port === requested.port)
    if (!isKnown && reported.length < MAX_LISTED) reported.push(requested)
  }
  return { ...one, count: one.count + other.count, asked: reported } as EgressFacts
}
