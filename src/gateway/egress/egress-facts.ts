/** The facts of a refusal by egress itself, as plain JSON. Its receipt stores them, so that replay can decide again. */
import { z } from 'zod'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import { nonPublicReason } from '../../lib/public-address.ts'
import { reference } from '../../policy/decision-request.ts'
import { GRANT_OUTCOMES } from '../../receipts/kinds.ts'
import { type EgressRequest, fittingRules, type RuleTerms, ruleTerms } from './rules.ts'

/** The most requests that one receipt of several refusals names. */
export const MAX_LISTED = 5

const requested = z.strictObject({
  host: z.string().max(300),
  form: z.enum(['name', 'ipv4', 'ipv6']),
  port: z.int(),
  protocol: z.enum(['connect', 'http']),
  method: z.string().max(40).optional(),
  path: z.string().max(8192).optional(),
})

const shared = {
  schema: z.literal('craik.egress_decision/1'),
  /** The number of refusals. A receipt of several refusals names at most `MAX_LISTED`. */
  count: z.int().min(1),
  asked: z.array(requested).max(MAX_LISTED),
}

export const egressFacts = z.discriminatedUnion('ground', [
  /** The rules at that time, stored as a document. If any rule is damaged, none of them applies. */
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
  /** Policy denied the request. The receipts of the first such denials contain the details. */
  z.strictObject({ ...shared, ground: z.literal('policy') }),
  z.strictObject({ ...shared, ground: z.literal('token_endpoint') }),
  z.strictObject({ ...shared, ground: z.literal('tls') }),
  z.strictObject({ ...shared, ground: z.literal('upgrade') }),
  z.strictObject({ ...shared, ground: z.literal('limit') }),
  z.strictObject({ ...shared, ground: z.literal('malformed') }),
])

export type EgressFacts = z.infer<typeof egressFacts>
type RefusalGround = EgressFacts['ground']

/** Grounds that need no further facts. */
const ALWAYS = {
  policy: 'egress.policy',
  token_endpoint: 'egress.token_endpoint',
  tls: 'egress.tls',
  upgrade: 'egress.upgrade',
  limit: 'egress.limit',
  malformed: 'egress.malformed',
} as const satisfies Partial<Record<RefusalGround, string>>

/** Returns the rule that refuses these facts. `undefined` when they are not a refusal. */
export function refusingRule(facts: EgressFacts, rules: readonly RuleTerms[] = []): string | undefined {
  if (facts.ground === 'rules') {
    if (facts.damaged > 0) return 'egress.damaged_rules'
    const found = new Set(facts.asked.map((one) => findRefusingRule(rules, one)))
    return found.size === 1 ? [...found][0] : undefined
  }
  if (facts.ground === 'grant') return facts.outcome === 'usable' ? undefined : 'egress.grant'
  if (facts.ground === 'addresses')
    return facts.addresses.some((address) => nonPublicReason(address) !== undefined)
      ? 'egress.not_public'
      : undefined
  return ALWAYS[facts.ground]
}

function findRefusingRule(rules: readonly RuleTerms[], request: EgressRequest): string | undefined {
  const [first] = fittingRules(rules, request)
  if (first === undefined) return 'egress.no_rule'
  return first.effect === 'deny' ? 'egress.blocked' : undefined
}

/** Returns the rules as the document that a refusal names by digest. */
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

/** Returns the facts of one refused request. */
export function factsOf<G extends Exclude<RefusalGround, 'rules' | 'grant' | 'addresses'>>(
  ground: G,
  request?: EgressRequest,
): EgressFacts {
  return {
    schema: 'craik.egress_decision/1',
    ground,
    count: 1,
    asked: request === undefined ? [] : [formatRequest(request)],
  }
}

/** Omits undefined fields. It also omits the path, which may contain a secret, unless a rule could have checked it. */
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
