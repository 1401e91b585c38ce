/** A decision in two steps in one transaction: evaluating spends and writes nothing, recording does both. */
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import type { Clock } from '../lib/clock.ts'
import type { Owner } from '../lib/owner.ts'
import { type Begin, ownerFields } from '../receipts/receipt-log.ts'
import type { ReceiptWriter } from '../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../receipts/schema.ts'
import { memoizeByRow } from '../store/memoize-by-row.ts'
import type { DocumentRow, Tables } from '../store/store.ts'
import { policyDigest } from './cedar.ts'
import { type DecisionRequest, decisionRequest, parseInput } from './decision-request.ts'
import { type DecisionInput, type Evaluation, evaluate, FAIL_OPEN_RULE } from './evaluate.ts'
import { findEnvelope, findGrant, gatherCandidates } from './find-grant.ts'
import type { DecideOutput, EffectReceipt } from './tokens.ts'

export interface PolicyDecision {
  readonly input: DecisionInput
  readonly policyText: string | undefined
  readonly evaluation: Evaluation
}

/** Evaluates the policy for a request. A module with its own limits checks them next and records afterwards. */
export async function decideRequest(
  tables: Tables,
  requested: DecisionRequest,
  clock: Clock,
): Promise<PolicyDecision> {
  const request = parseInput(decisionRequest, requested, 'the request')
  const envelope = await findEnvelope(tables, request.policy_envelope_id)
  const document = envelope === null ? undefined : await tables.documents.get(envelope.policy_digest)
  // A document that does not match the envelope's digest is not used.
  const policyText =
    document !== undefined && documentFacts(document).digest === envelope?.policy_digest
      ? document.text
      : undefined
  const input = gatherCandidates(request, envelope, await findGrant(tables, request.grant_id), clock.nowMs())
  return { input, policyText, evaluation: await evaluate(input, policyText) }
}

const documentFacts = memoizeByRow(({ text }: DocumentRow) => ({ digest: policyDigest(text) }))

/** Spends the grant if it allowed the request, and writes the begin receipt or the denial. */
export async function record(
  tables: Tables,
  decision: PolicyDecision,
  receipt: EffectReceipt,
  owner: Owner,
  receipts: ReceiptWriter,
): Promise<DecideOutput> {
  const { input, evaluation } = await spendGrant(tables, decision)
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
  // The end receipt repeats the begin receipt without its decision.
  const { decision: _, ...begun } = begin
  return { evaluation, ref, begin: begun, ...(profile && { profile }) }
}

async function spendGrant(tables: Tables, decision: PolicyDecision): Promise<PolicyDecision> {
  const { input, evaluation, policyText } = decision
  const id = input.request.grant_id
  // A grant with unlimited uses has nothing to spend.
  const isUnlimited = input.grant?.found === 'grant' && input.grant.uses_left === null
  if (!evaluation.usesGrant || isUnlimited || (await tables.grants.consume(id!))) return decision
  const grant = input.grant?.found === 'grant' ? { ...input.grant, uses_left: 0 } : input.grant
  const without = { ...input, grant }
  const again = await evaluate(without, policyText)
  if (again.usesGrant) throw new CraikError('internal', `grant ${id} could not be used`)
  return { input: without, evaluation: again, policyText }
}

/** Returns the effect's receipt, with the decision and all its inputs. */
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

/** Nothing happened, so the denial omits the isolation, the measures and the shell record. */
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

/** Parsed values have `undefined` for omitted fields. JSON cannot represent that. */
export function plainJson(value: unknown): Json & (string | number | boolean) {
  return JSON.parse(JSON.stringify(value))
}
