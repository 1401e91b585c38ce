/** What a refusal by egress itself rests on, as plain JSON: kept in its receipt, so that it can be made again. */
import { z } from 'zod'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import { notPublic } from '../../lib/public-address.ts'
import { reference } from '../../policy/request.ts'
import { GRANT_OUTCOMES } from '../../receipts/kinds.ts'
import { type EgressRequest, fittingRules, type RuleTerms, ruleTerms } from './rules.ts'

/** Of many that were refused together so many are told by name. */
export const MAX_LISTED = 5

const asked = z.strictObject({
  host: z.string().max(300),
  form: z.enum(['name', 'ipv4', 'ipv6']),
  port: z.int(),
  protocol: z.enum(['connect', 'http']),
  method: z.string().max(40).optional(),
  path: z.string().max(8192).optional(),
})

const shared = {
  schema: z.literal('craik.egress_decision/1'),
  /** How many were refused so; of more than one not all are told. */
  count: z.int().min(1),
  asked: z.array(asked).max(MAX_LISTED),
}

export const egressFacts = z.discriminatedUnion('ground', [
  /** The rules that there were, kept as a document; of `damaged` ones nothing is believed. */
  z.strictObject({
    ...shared,
    ground: z.literal('rules'),
    rules_digest: z.string(),
    damaged: z.int().nonnegative(),
  }),
  z.strictObject({
    ...shared,
    ground: z.literal('grant'),
    rule_id: reference,
    outcome: z.enum(GRANT_OUTCOMES),
  }),
  z.strictObject({
    ...shared,
    ground: z.literal('addresses'),
    addresses: z.array(z.string().max(100)).max(64),
  }),
  /** Policy denied it, as the receipts of the first of them say in full. */
  z.strictObject({ ...shared, ground: z.literal('policy') }),
  z.strictObject({ ...shared, ground: z.literal('token_endpoint') }),
  z.strictObject({ ...shared, ground: z.literal('tls') }),
  z.strictObject({ ...shared, ground: z.literal('upgrade') }),
  z.strictObject({ ...shared, ground: z.literal('limit') }),
  z.strictObject({ ...shared, ground: z.literal('malformed') }),
])

export type EgressFacts = z.infer<typeof egressFacts>
type Ground = EgressFacts['ground']

/** Those that need nothing but themselves. */
const ALWAYS = {
  policy: 'egress.policy',
  token_endpoint: 'egress.token_endpoint',
  tls: 'egress.tls',
  upgrade: 'egress.upgrade',
  limit: 'egress.limit',
  malformed: 'egress.malformed',
} as const satisfies Partial<Record<Ground, string>>

/** The rule by which these facts are a refusal; undefined when they are none. */
export function refusingRule(facts: EgressFacts, rules: readonly RuleTerms[] = []): string | undefined {
  if (facts.ground === 'rules') {
    if (facts.damaged > 0) return 'egress.damaged_rules'
    const found = new Set(facts.asked.map((one) => refusedByRules(rules, one)))
    return found.size === 1 ? [...found][0] : undefined
  }
  if (facts.ground === 'grant') return facts.outcome === 'usable' ? undefined : 'egress.grant'
  if (facts.ground === 'addresses')
    return facts.addresses.some((address) => notPublic(address) !== undefined)
      ? 'egress.not_public'
      : undefined
  return ALWAYS[facts.ground]
}

function refusedByRules(rules: readonly RuleTerms[], asked: EgressRequest): string | undefined {
  const [first] = fittingRules(rules, asked)
  if (first === undefined) return 'egress.no_rule'
  return first.effect === 'deny' ? 'egress.blocked' : undefined
}

/** Rules as the document that a refusal names by its digest. */
export function rulesDocument(rules: readonly RuleTerms[]): string {
  const terms = rules.map(({ id, effect, hosts, ports, methods, path }) => ({
    id,
    effect,
    hosts,
    ports,
    methods,
    path,
  }))
  return canonicalJson(terms.sort((a, b) => (a.id < b.id ? -1 : 1)) as unknown as Json)
}

export function parseRulesDocument(text: string): readonly RuleTerms[] {
  return z.array(ruleTerms).parse(JSON.parse(text))
}

/** One refusal of one request. */
export function factsOf<G extends Exclude<Ground, 'rules' | 'grant' | 'addresses'>>(
  ground: G,
  asked?: EgressRequest,
): EgressFacts {
  return {
    schema: 'craik.egress_decision/1',
    ground,
    count: 1,
    asked: asked === undefined ? [] : [formatRequest(asked)],
  }
}

/** Without what is undefined; the path is left out, which may hold a secret, unless a rule could have looked at it. */
export function formatRequest(
  { host, form, port, protocol, method, path }: EgressRequest,
  withPath = false,
): EgressRequest {
  return {
    host,
    form,
    port,
    protocol,
    ...(method !== undefined && { method }),
    ...(withPath && path !== undefined && { path }),
  }
}
