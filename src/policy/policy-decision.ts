/** A decision in two steps inside one transaction: judging spends and writes nothing, recording does both. */
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import type { Clock } from '../lib/clock.ts'
import type { Owner } from '../lib/owner.ts'
import { type Begin, ownerFields } from '../receipts/log.ts'
import type { ReceiptWriter } from '../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../receipts/schema.ts'
import { memoizeByRow } from '../store/memoize-by-row.ts'
import type { DocumentRow, Tables } from '../store/store.ts'
import { policyDigest } from './cedar.ts'
import { type DecisionInput, type Evaluation, evaluate, FAIL_OPEN_RULE } from './evaluate.ts'
import { findEnvelope, findGrant, gather } from './lookup.ts'
import { type DecisionRequest, decisionRequest, parseInput } from './request.ts'
import type { DecideOutput, EffectReceipt } from './tokens.ts'

export interface PolicyDecision {
  readonly input: DecisionInput
  readonly policyText: string | undefined
  readonly evaluation: Evaluation
}

/** What policy says of a request. A room with limits of its own asks them next, and records only then. */
export async function decideRequest(
  tables: Tables,
  asked: DecisionRequest,
  clock: Clock,
): Promise<PolicyDecision> {
  const request = parseInput(decisionRequest, asked, 'the request')
  const envelope = await findEnvelope(tables, request.policy_envelope_id)
  const document = envelope === null ? undefined : await tables.documents.get(envelope.policy_digest)
  // A document that is not the one the envelope names decides nothing.
  const policyText =
    document !== undefined && documentFacts(document).digest === envelope?.policy_digest
      ? document.text
      : undefined
  const input = gather(request, envelope, await findGrant(tables, request.grant_id), clock.nowMs())
  return { input, policyText, evaluation: await evaluate(input, policyText) }
}

const documentFacts = memoizeByRow(({ text }: DocumentRow) => ({ digest: policyDigest(text) }))

/** Spends the grant if that is what allows it, and writes the receipt: the effect's beginning, or a denial. */
export async function record(
  tables: Tables,
  judgement: PolicyDecision,
  receipt: EffectReceipt,
  owner: Owner,
  receipts: ReceiptWriter,
): Promise<DecideOutput> {
  const { input, evaluation } = await spendGrant(tables, judgement)
  const { request, envelope } = input
  const begin = draftOf(input, evaluation, receipt)
  const profile = envelope?.profile
  if (evaluation.effect === 'deny') {
    const ref = await receipts.append(tables, denialOf(begin))
    return { evaluation, ref, ...(profile && { profile }) }
  }
  const ref = await receipts.append(tables, { ...begin, phase: 'begin', owner: ownerFields(owner) })
  if (evaluation.rule === FAIL_OPEN_RULE) {
    await receipts.append(
      tables,
      failOpenReceipt(begin, { ...begin.links, receipt_ids: [ref.id] }, request.capability),
    )
  }
  // The end repeats what began, not why.
  const { decision: _, ...begun } = begin
  return { evaluation, ref, begin: begun, ...(profile && { profile }) }
}

async function spendGrant(tables: Tables, judgement: PolicyDecision): Promise<PolicyDecision> {
  const { input, evaluation, policyText } = judgement
  const id = input.request.grant_id
  // Of a grant without a number of uses there is nothing to spend.
  const isUnlimited = input.grant?.found === 'grant' && input.grant.uses_left === null
  if (!evaluation.usesGrant || isUnlimited || (await tables.grants.consume(id!))) return judgement
  const grant = input.grant?.found === 'grant' ? { ...input.grant, uses_left: 0 } : input.grant
  const without = { ...input, grant }
  const again = await evaluate(without, policyText)
  if (again.usesGrant) throw new CraikError('internal', `grant ${id} could not be used`)
  return { input: without, evaluation: again, policyText }
}

/** The effect's receipt, with the decision and everything that it rests on. */
function draftOf(input: DecisionInput, evaluation: Evaluation, receipt: EffectReceipt): Begin {
  const { operator, capability, operation, target, credential_ref, scope, policy_envelope_id, grant_id } =
    input.request
  return {
    ...receipt,
    operator,
    capability,
    operation,
    target,
    links: {
      ...receipt.links,
      ...scope,
      ...(policy_envelope_id !== undefined && { policy_envelope_id }),
      ...(grant_id !== undefined && { grant_id }),
      ...(credential_ref !== undefined && { secret_ref: credential_ref }),
      grant_outcome: evaluation.grantOutcome,
    },
    decision: {
      effect: evaluation.effect,
      rule: evaluation.rule,
      missing: [...evaluation.missing],
      ...(input.envelope !== null && { policy_digest: input.envelope.policy_digest }),
      replayable: true,
      input: input as Json,
    },
  }
}

/** Nothing happened, so nothing is said of what the effect would have reached or measured. */
function denialOf({ isolation: _, measures: __, shell: ___, kind, metadata, ...begin }: Begin): ReceiptDraft {
  return {
    ...begin,
    kind: 'denial',
    phase: 'point',
    status: 'denied',
    metadata: { ...metadata, denied_kind: kind },
  }
}

function failOpenReceipt(
  { operator }: Pick<Begin, 'operator'>,
  links: Begin['links'],
  permitted: string,
): ReceiptDraft {
  return {
    kind: 'environment_decision',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'policy.fail_open',
    operation: 'allow',
    target: permitted,
    links,
  }
}

/** Parsed values hold `undefined` where a field was left out; JSON has no such thing. */
export function plainJson(value: unknown): Json & (string | number | boolean) {
  return JSON.parse(JSON.stringify(value))
}
