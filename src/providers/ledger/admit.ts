/** Admission of a model call: policy, quota, budgets, the hold and the receipts, in one transaction. */
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { type BudgetId, type HoldId, newId } from '../../lib/ids.ts'
import { parseInput } from '../../policy/decision-request.ts'
import { decideRequest, type PolicyDecision, record } from '../../policy/policy-decision.ts'
import type { ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { ReceiptDraft, ReceiptLinks } from '../../receipts/schema.ts'
import type { Tables } from '../../store/store.ts'
import { describeRefusal, hintOf } from './describe-refusal.ts'
import {
  type BalanceFacts,
  type BudgetFacts,
  evaluateReservation,
  type RefusedReservation,
  type ReservationInput,
  type Reserved,
  reservationInput,
  usesNoTokens,
} from './evaluate-reservation.ts'
import { formatHold, type Hold, ledgerEntry } from './hold.ts'
import {
  budgetsFor,
  callFacts,
  countHoldingCalls,
  QUOTA_WINDOW_MS,
  quotaRetryAt,
  quotasFor,
} from './ledger-facts.ts'
import { sweepDead } from './sweep.ts'
import type { AdmitInput, AdmitOutput } from './tokens.ts'

export async function admitWithTables(
  tables: Tables,
  requested: AdmitInput,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<AdmitOutput> {
  const { receipt, owner, call } = requested
  const evaluated = await evaluateCall(tables, requested, receipts, clock)
  if ('effect' in evaluated) return evaluated
  const { policyDecision, input, facts, verdict } = evaluated
  const { request } = input
  const decision = await record(tables, policyDecision, receipt, owner, receipts)
  if (decision.begin === undefined) return { effect: 'deny', by: 'policy', decision }
  const links = { ...linksOf(input), receipt_ids: [decision.ref.id] }
  const id = newId<HoldId>('hold', facts.now_ms)
  const { balances, parts } = await holdIn(tables, facts.budgets, verdict)
  const hold: Hold = {
    operator: request.operator,
    links,
    billing: call.billing,
    price: call.price,
    capped: verdict.cap !== null,
    nanoUsd: verdict.nanoUsd,
    tokens: verdict.tokens,
    parts,
  }
  await tables.holds.insert({
    id,
    providerId: call.providerId,
    sessionId: facts.call.session_id,
    owner,
    createdAtMs: facts.now_ms,
    document: formatHold(hold),
  })
  await tables.quotaUses.add(
    {
      holdId: id,
      providerId: call.providerId,
      sessionId: facts.call.session_id,
      atMs: facts.now_ms,
      tokens: verdict.tokens,
    },
    facts.now_ms - QUOTA_WINDOW_MS,
  )
  const budgetReceipt = await receipts.append(tables, {
    ...ledgerEntry(request.operator, links, 'reserve'),
    status: 'passed',
    decision: decisionOf(facts, verdict, call.priceDigest),
    metadata: {
      hold_id: id,
      nano_usd: verdict.nanoUsd,
      tokens: verdict.tokens,
      max_output_tokens: verdict.cap,
      lowered: verdict.lowered,
      balances,
    },
  })
  return {
    effect: 'allow',
    ref: decision.ref,
    begin: decision.begin,
    hold: { id, maxOutputTokens: verdict.cap, lowered: verdict.lowered },
    budgetReceipt,
  }
}

/** Returns null when nothing refuses the call. */
export async function checkBeforeBody(
  tables: Tables,
  requested: AdmitInput,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<Denied | null> {
  const evaluated = await evaluateCall(tables, requested, receipts, clock)
  return 'effect' in evaluated ? evaluated : null
}

type Denied = Extract<AdmitOutput, { effect: 'deny' }>

interface Evaluated {
  readonly policyDecision: PolicyDecision
  readonly input: AdmitInput
  readonly facts: ReservationInput
  readonly verdict: Reserved
}

/** Evaluates policy, quotas and budgets, and records a denial. */
async function evaluateCall(
  tables: Tables,
  requested: AdmitInput,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<Denied | Evaluated> {
  const { receipt, owner, call, isNoted = true } = requested
  // A decision about one provider, checked against the limits of another, would allow a call that neither allows.
  if (requested.request.target !== call.providerId)
    throw new CraikError(
      'internal',
      `a call to ${call.providerId} was requested as ${requested.request.target}`,
    )
  const policyDecision = await decideRequest(tables, requested.request, clock)
  const input = { ...requested, request: policyDecision.input.request }
  if (policyDecision.evaluation.effect === 'deny') {
    if (!isNoted) return { effect: 'deny', by: 'policy', decision: toUnwrittenDecision(policyDecision) }
    return {
      effect: 'deny',
      by: 'policy',
      decision: await record(tables, policyDecision, receipt, owner, receipts),
    }
  }
  await sweepDead(tables, receipts, clock)
  const facts = await gather(tables, input, clock.nowMs())
  const verdict = evaluateReservation(facts)
  if (verdict.effect === 'deny') return refuse(tables, input, facts, verdict, receipts)
  return { policyDecision, input, facts, verdict }
}

function toUnwrittenDecision({ evaluation, input }: PolicyDecision) {
  const profile = input.envelope?.profile
  return { evaluation, ref: undefined, ...(profile && { profile }) }
}

/** Quotas are checked first. While one of them denies, budgets are not read. */
async function gather(tables: Tables, input: AdmitInput, nowMs: number): Promise<ReservationInput> {
  const call = callFacts(input)
  const quotas = await quotasFor(tables, call, nowMs)
  const ofQuotas: ReservationInput = {
    schema: 'craik.quota_decision/1',
    now_ms: nowMs,
    call,
    quotas,
    budgets: [],
  }
  const parsed = parseInput(reservationInput, ofQuotas, 'the call')
  const verdict = quotas.length === 0 ? undefined : evaluateReservation(parsed)
  if (verdict?.effect === 'deny' && verdict.rule !== 'quota.uncapped') return parsed
  const budgets = usesNoTokens(call) ? [] : await budgetsFor(tables, call, nowMs)
  return { ...parsed, schema: 'craik.budget_decision/1', budgets }
}

async function holdIn(
  tables: Tables,
  budgets: readonly BudgetFacts[],
  { nanoUsd, tokens }: Reserved,
): Promise<{ readonly balances: BalanceFacts[]; readonly parts: Hold['parts'] }> {
  const balances: BalanceFacts[] = []
  const parts: Hold['parts'][number][] = []
  for (const budget of budgets) {
    const key = {
      budgetId: budget.budget_id as BudgetId,
      period: budget.period,
      windowStartMs: budget.window_start_ms,
    }
    if (!(await tables.budgets.hold(key, { nanoUsd, tokens })))
      throw new CraikError('internal', `budget ${budget.budget_id} changed during the decision`)
    parts.push(key)
    // Read in this transaction, and changed only by the hold.
    balances.push({
      budget_id: budget.budget_id,
      held_nano_usd: budget.held_nano_usd + nanoUsd,
      held_tokens: budget.held_tokens + tokens,
      period: budget.period,
      spent_nano_usd: budget.spent_nano_usd,
      spent_tokens: budget.spent_tokens,
      window_start_ms: budget.window_start_ms,
    })
  }
  return { balances, parts }
}

async function refuse(
  tables: Tables,
  input: AdmitInput,
  facts: ReservationInput,
  verdict: RefusedReservation,
  receipts: ReceiptWriter,
): Promise<Denied> {
  const { by, rule, subject } = verdict
  const quota = by === 'quota' ? facts.quotas.find(({ id }) => id === subject) : undefined
  const retryAtMs =
    quota === undefined
      ? (verdict.retryAtMs ?? undefined)
      : await quotaRetryAt(tables, rule, quota, facts.call, facts.now_ms)
  const budget = by === 'budget' ? facts.budgets.find(({ budget_id }) => budget_id === subject) : undefined
  const holding =
    rule === 'budget.exhausted' && budget !== undefined ? await countHoldingCalls(tables, budget) : undefined
  const draft: ReceiptDraft = {
    ...ledgerEntry(input.request.operator, linksOf(input), 'reserve'),
    capability: `${by}.reserve`,
    status: 'denied',
    decision: decisionOf(facts, verdict, input.call.priceDigest),
    metadata: { subject, ...(retryAtMs !== undefined && { retry_at_ms: retryAtMs }) },
  }
  const receipt = input.isNoted === false ? undefined : await receipts.append(tables, draft)
  return {
    effect: 'deny',
    by,
    rule,
    subject,
    reason: describeRefusal(facts, verdict, retryAtMs, holding),
    hint: hintOf(facts, verdict, holding),
    ...(retryAtMs !== undefined && { retryAtMs }),
    receipt,
  }
}

function decisionOf(
  facts: ReservationInput,
  { effect, rule }: Reserved | RefusedReservation,
  priceDigest: string | undefined,
): NonNullable<ReceiptDraft['decision']> {
  return {
    effect,
    rule,
    missing: [],
    ...(priceDigest !== undefined && { price_digest: priceDigest }),
    replayable: true,
    input: facts,
  }
}

/** Returns the call's scope. Its own receipt names the grant and the credential. */
function linksOf({ request, receipt, call }: AdmitInput): ReceiptLinks {
  const { backend_id, handoff_id } = receipt.links
  const { policy_envelope_id, scope } = request
  return {
    ...(backend_id !== undefined && { backend_id }),
    ...(handoff_id !== undefined && { handoff_id }),
    ...(policy_envelope_id !== undefined && { policy_envelope_id }),
    provider_id: call.providerId,
    ...scope,
  }
}
