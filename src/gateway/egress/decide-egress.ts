/** Decides one egress request in a transaction: it reads the rules, checks the grant and evaluates the policy. */
import { hash } from 'node:crypto'
import type { Clock } from '../../lib/clock.ts'
import { REFERENCE } from '../../lib/ids.ts'
import type { DecisionRequest } from '../../policy/decision-request.ts'
import { checkGrant } from '../../policy/grant.ts'
import { decideRequest, type PolicyDecision, plainJson, record } from '../../policy/policy-decision.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { redactValue } from '../../receipts/redaction/redact.ts'
import type { ReceiptDraft } from '../../receipts/schema.ts'
import type { Tables } from '../../store/store.ts'
import { formatDestination } from './egress-destination.ts'
import {
  type EgressFacts,
  factsOf,
  formatRequest,
  parseRulesDocument,
  refusingRule,
  rulesDocument,
} from './egress-facts.ts'
import type { EgressSealer } from './rule-procedures.ts'
import type { RuleReader } from './rule-reader.ts'
import { type EgressRequest, type EgressRule, fittingRules } from './rules.ts'
import type { DecideEgressInput, DecideEgressOutput, RefuseEgressInput } from './tokens.ts'

export interface DecideWork {
  readonly tables: Tables
  readonly clock: Clock
  readonly reader: RuleReader
}

/** The decision before anything is written. */
export type EgressVerdict =
  | { readonly effect: 'allow'; readonly rule: EgressRule; readonly decision: PolicyDecision }
  | { readonly effect: 'deny'; readonly rule?: EgressRule; readonly decision: PolicyDecision }
  | {
      readonly effect: 'refuse'
      readonly rule?: EgressRule
      readonly facts: EgressFacts
      readonly document?: string
    }

type Question = Pick<DecideEgressInput, 'caller' | 'asked' | 'isTokenEndpoint'>

export async function evaluateEgress(work: DecideWork, request: Question): Promise<EgressVerdict> {
  const { caller, asked: requested, isTokenEndpoint } = request
  const { rules, damaged } = await work.reader.rulesFor(work.tables, caller.operator, caller.sandboxId)
  const fitting = damaged.length === 0 ? fittingRules(rules, requested) : []
  if (fitting.length === 0 || fitting[0]!.effect === 'deny') {
    const document = rulesDocument(rules)
    const looksAtPath = rules.some(({ path }) => path !== null)
    const facts: EgressFacts = {
      schema: 'craik.egress_decision/1',
      ground: 'rules',
      count: 1,
      asked: [formatRequest(requested, looksAtPath)],
      rules_digest: `sha256:${hash('sha256', document)}`,
      damaged: damaged.length,
    }
    return { effect: 'refuse', facts, document, ...(fitting[0] && { rule: fitting[0] }) }
  }
  if (isTokenEndpoint)
    return { effect: 'refuse', rule: fitting[0]!, facts: factsOf('token_endpoint', requested) }
  let denied: EgressVerdict | undefined
  for (const rule of fitting) {
    const verdict = await evaluateRule(work, request, rule)
    if (verdict.effect === 'allow') return verdict
    denied ??= verdict
  }
  return denied!
}

/** Requires a usable grant, even where the policy allows egress by default: egress always needs someone's approval. */
async function evaluateRule(
  { tables, clock }: DecideWork,
  { caller, asked: requested }: Question,
  rule: EgressRule,
): Promise<EgressVerdict> {
  const request: DecisionRequest = {
    operator: caller.operator,
    capability: 'network.egress',
    operation: operationOf(requested),
    target: `egress/${rule.id}`,
    scope: { ...caller.scope, ...(caller.sandboxId !== undefined && { sandbox_id: caller.sandboxId }) },
    policy_envelope_id: caller.policyEnvelopeId,
    grant_id: rule.grant_id!,
  }
  const decision = await decideRequest(tables, request, clock)
  if (decision.evaluation.effect === 'deny') return { effect: 'deny', rule, decision }
  const outcome = checkGrant(decision.input.grant, decision.input.request, decision.input.now_ms)
  if (outcome === 'usable') return { effect: 'allow', rule, decision }
  const facts: EgressFacts = {
    schema: 'craik.egress_decision/1',
    ground: 'grant',
    count: 1,
    asked: [formatRequest(requested)],
    rule_id: rule.id,
    outcome,
  }
  return { effect: 'refuse', rule, facts }
}

export async function decideEgress(
  work: DecideWork,
  sealer: EgressSealer,
  { isNoted, owner, ...question }: DecideEgressInput,
): Promise<DecideEgressOutput> {
  const verdict = await evaluateEgress(work, question)
  const { asked: requested, caller } = question
  if (verdict.effect === 'refuse') {
    const { facts, document } = verdict
    if (document !== undefined && facts.ground === 'rules')
      await work.tables.documents.put({
        digest: facts.rules_digest,
        mediaType: 'application/json',
        text: document,
      })
    if (isNoted) await refuseEgress(work, sealer, { caller, facts })
    const rule = refusingRule(facts, document === undefined ? [] : parseRulesDocument(document))!
    return { effect: 'deny', rule, ...(!isNoted && { facts }) }
  }
  const { decision, rule } = verdict
  if (verdict.effect === 'deny' && !isNoted)
    return { effect: 'deny', rule: decision.evaluation.rule, facts: factsOf('policy', requested) }
  const receipt = { kind: 'egress' as const, links: {}, metadata: metadataOf(requested) }
  const { evaluation, ref, begin } = await record(work.tables, decision, receipt, owner, sealer)
  if (begin === undefined) return { effect: 'deny', rule: evaluation.rule }
  return { effect: 'allow', ruleId: rule!.id, grantId: rule!.grant_id!, ref, begin }
}

/** Writes a denial by egress itself, as opposed to one by the policy. */
export async function refuseEgress(
  { tables }: Pick<DecideWork, 'tables'>,
  sealer: EgressSealer,
  { caller, facts, begun }: RefuseEgressInput,
): Promise<ReceiptRef> {
  if (begun !== undefined)
    await sealer.append(
      tables,
      endDraft(begun.ref.id, begun.begin, { status: 'blocked', metadata: { refused_by: ruleOf(facts) } }),
    )
  const document = facts.ground === 'rules' ? await tables.documents.get(facts.rules_digest) : undefined
  const rules = document === undefined ? [] : parseRulesDocument(document.text)
  const [first] = facts.asked
  const draft: ReceiptDraft = {
    kind: 'denial',
    phase: 'point',
    status: 'denied',
    operator: caller.operator,
    capability: 'network.egress',
    operation: first === undefined ? 'connect' : operationOf(first),
    target: facts.count === 1 && first !== undefined ? targetOf(first) : UNNAMED,
    links: {
      ...caller.scope,
      policy_envelope_id: caller.policyEnvelopeId,
      ...(caller.sandboxId !== undefined && { sandbox_id: caller.sandboxId }),
      ...(begun !== undefined && { receipt_ids: [begun.ref.id] }),
    },
    decision: {
      effect: 'deny',
      rule: refusingRule(facts, rules) ?? ruleOf(facts),
      missing: [],
      replayable: !redactValue(facts).redacted,
      input: plainJson(facts),
    },
    metadata: {
      denied_kind: 'egress',
      count: facts.count,
      ...(first !== undefined && { destinations: facts.asked.map((one) => targetOf(one)) }),
    },
  }
  return sealer.append(tables, draft)
}

/** Returns the refusing rule when the ground alone determines it. */
function ruleOf(facts: EgressFacts): string {
  return refusingRule(facts) ?? 'egress.not_public'
}

export function operationOf({ protocol }: EgressRequest): 'connect' | 'request' {
  return protocol === 'connect' ? 'connect' : 'request'
}

const UNNAMED = 'egress/unnamed'

/** Returns `host:port` if that is a valid reference and does not look like a secret. */
function targetOf(requested: EgressRequest): string {
  const text = formatDestination(requested)
  return REFERENCE.test(text) && !redactValue(text).redacted ? text : UNNAMED
}

function metadataOf({ host, port, protocol, method }: EgressRequest) {
  return { host, port, protocol, ...(method !== undefined && { method }) }
}
