/**
 * Decides whether a call fits its quotas and budgets, and with which output limit. It is a pure function of the data in
 * its receipt, for admission and for replay.
 */
import { z } from 'zod'
import { BUDGET_SCOPES, PERIODS, QUOTA_SCOPES } from '../../store/ledger-tables.ts'
import { highestInputPrice, TOKENS_PER_MTOK, worstCase } from './money.ts'
import type { Price } from './tokens.ts'
import { windowEnd } from './windows.ts'

/** An output that is cut off below this is useless, so the call is denied instead. */
const LEAST_CAP_TOKENS = 1024
/**
 * For calls without an output limit. Present large models accept it, and it does not hold a whole budget for one call.
 */
export const MISSING_CAP_TOKENS = 32_000

const MAX_INPUT_BYTES = 2 ** 28
const MAX_CAP_TOKENS = 100_000_000
/** A thousand times the highest existing price would still fit. */
const MAX_PRICE = 1e13

const count = z.int().nonnegative()
const limit = count.nullable()
const pricePart = z.int().nonnegative().max(MAX_PRICE)

const price = z.strictObject({
  input_nano_usd_per_mtok: pricePart,
  cache_read_nano_usd_per_mtok: pricePart,
  cache_write_nano_usd_per_mtok: pricePart,
  output_nano_usd_per_mtok: pricePart,
})

const call = z.strictObject({
  provider_id: z.string(),
  model: z.string().max(500),
  operator: z.string(),
  session_id: z.string().nullable(),
  sandbox_id: z.string().nullable(),
  billing: z.enum(['metered', 'subscription', 'free']),
  price: price.nullable(),
  input_bytes: count.max(MAX_INPUT_BYTES),
  max_output_tokens: z.int().min(1).max(MAX_CAP_TOKENS).nullable(),
  cap_can_be_set: z.boolean(),
})

const quota = z.strictObject({
  id: z.string(),
  scope_kind: z.enum(QUOTA_SCOPES),
  scope_ref: z.string(),
  requests_per_minute: limit,
  tokens_per_minute: limit,
  concurrent: limit,
  /** In the last sixty seconds. */
  requests: count,
  tokens: count,
  running: count,
})

export const balanceFacts = z.strictObject({
  budget_id: z.string(),
  period: z.enum(PERIODS),
  window_start_ms: z.int(),
  spent_nano_usd: count,
  held_nano_usd: count,
  spent_tokens: count,
  held_tokens: count,
})

const budget = balanceFacts.extend({
  scope_kind: z.enum(BUDGET_SCOPES),
  scope_ref: z.string().nullable(),
  limit_nano_usd: limit,
  limit_tokens: limit,
  allow_unpriced: z.boolean(),
})

/** A quota's denial precedes the check of budgets, so it lists none. */
export const reservationInput = z.strictObject({
  schema: z.enum(['craik.budget_decision/1', 'craik.quota_decision/1']),
  now_ms: z.int(),
  call,
  quotas: z.array(quota),
  budgets: z.array(budget),
})

export type ReservationInput = z.infer<typeof reservationInput>
export type ReservationFacts = ReservationInput['call']
export type QuotaFacts = ReservationInput['quotas'][number]
export type BudgetFacts = ReservationInput['budgets'][number]
export type BalanceFacts = z.infer<typeof balanceFacts>

export interface Reserved {
  readonly effect: 'allow'
  readonly rule: 'budget.fits' | 'budget.none_applies'
  /** Null when the call stays without a limit. */
  readonly cap: number | null
  readonly lowered: boolean
  readonly nanoUsd: number
  readonly tokens: number
}

export interface RefusedReservation {
  readonly effect: 'deny'
  readonly by: 'budget' | 'quota'
  readonly rule: string
  /** The budget or quota that denies. */
  readonly subject: string
  /** For budgets: the end of the windows that are exhausted. Null when waiting does not help. */
  readonly retryAtMs: number | null
}

export type ReservationVerdict = Reserved | RefusedReservation

export function evaluateReservation(input: ReservationInput): ReservationVerdict {
  const { call, quotas, budgets } = input
  const least = leastCap(call)
  const quotaHeadrooms = quotas.map((each) => ({ id: each.id, room: quotaHeadroom(each, call) }))
  const busy =
    findExhaustedQuota(quotas) ?? noHeadroom(quotaHeadrooms, least, 'quota', 'quota.tokens_per_minute')
  if (busy !== undefined) return busy
  const unpriced = budgets.find((each) => isUnpriced(each, call))
  if (unpriced !== undefined) return refuse('budget', 'budget.unpriced', unpriced.budget_id)

  const budgetHeadrooms = budgets.map((each) => ({ id: each.budget_id, room: budgetHeadroom(each, call) }))
  const full = noHeadroom(budgetHeadrooms, least, 'budget', 'budget.exhausted')
  if (full !== undefined) return { ...full, retryAtMs: findRetryTime(budgets, call, least) }
  const tightest = [...quotaHeadrooms, ...budgetHeadrooms].reduce<Headroom>(
    (a, b) => (b.room < a.room ? b : a),
    NO_LIMIT,
  )
  const requestCount = call.max_output_tokens
  const cap =
    tightest.room === Infinity ? requestCount : Math.min(requestCount ?? MISSING_CAP_TOKENS, tightest.room)
  const lowered = cap !== requestCount
  if (lowered && !call.cap_can_be_set) {
    const by = budgetHeadrooms.includes(tightest) ? 'budget' : 'quota'
    return refuse(by, `${by}.uncapped`, tightest.id)
  }
  return {
    effect: 'allow',
    rule: budgets.length === 0 ? 'budget.none_applies' : 'budget.fits',
    cap,
    lowered,
    ...worstAmount(call, cap),
  }
}

/** Returns the minimum that a call needs: its input, and a useful output. */
export function leastAmount(call: ReservationFacts): { nanoUsd: number; tokens: number } {
  return worstAmount(call, leastCap(call))
}

function leastCap({ max_output_tokens }: ReservationFacts): number {
  return Math.min(max_output_tokens ?? LEAST_CAP_TOKENS, LEAST_CAP_TOKENS)
}

/**
 * Returns the amount that a call holds in every budget that applies. Without an output limit, it is the input alone.
 */
function worstAmount(call: ReservationFacts, cap: number | null): { nanoUsd: number; tokens: number } {
  const tokens = call.input_bytes + (cap ?? 0)
  const price = call.billing === 'metered' ? callPrice(call) : null
  return { tokens, nanoUsd: price === null ? 0 : worstCase(price, call.input_bytes, cap ?? 0) }
}

interface Headroom {
  readonly id: string
  /** The largest output limit that fits. Negative when even the input does not fit. */
  readonly room: number
}

const NO_LIMIT: Headroom = { id: '', room: Infinity }

/**
 * Returns whether the call uses no model output, such as counting tokens. It counts for request quotas, but for no
 * budget.
 */
export function usesNoTokens({ input_bytes }: Pick<ReservationFacts, 'input_bytes'>): boolean {
  return input_bytes === 0
}

function quotaHeadroom({ tokens_per_minute, tokens }: QuotaFacts, call: ReservationFacts): number {
  return tokens_per_minute === null || usesNoTokens(call)
    ? Infinity
    : tokens_per_minute - tokens - call.input_bytes
}

/** The limit, minus the spent and held amounts. */
function budgetHeadroom(budget: BudgetFacts, call: ReservationFacts): number {
  const { limit_tokens, spent_tokens, held_tokens } = budget
  const byTokens =
    limit_tokens === null ? Infinity : limit_tokens - spent_tokens - held_tokens - call.input_bytes
  return Math.min(byTokens, dollarHeadroom(budget, call))
}

function dollarHeadroom(budget: BudgetFacts, call: ReservationFacts): number {
  const price = call.billing === 'metered' ? callPrice(call) : null
  if (price === null || budget.limit_nano_usd === null) return Infinity
  const left = BigInt(budget.limit_nano_usd) - BigInt(budget.spent_nano_usd) - BigInt(budget.held_nano_usd)
  const inputCost = BigInt(call.input_bytes) * BigInt(highestInputPrice(price))
  const forOutput = left * TOKENS_PER_MTOK - inputCost
  if (price.outputNanoUsdPerMtok === 0) return inputCost === 0n || forOutput >= 0n ? Infinity : -1
  if (forOutput < 0n) return -1
  return Number(forOutput / BigInt(price.outputNanoUsdPerMtok))
}

/** An unknown price is not free: a dollar limit could not be enforced. */
function isUnpriced(
  { limit_nano_usd, allow_unpriced }: BudgetFacts,
  { billing, price }: ReservationFacts,
): boolean {
  return billing === 'metered' && price === null && limit_nano_usd !== null && !allow_unpriced
}

/** Returns the first quota that is exhausted for any request. */
export function findExhaustedQuota(quotas: readonly QuotaFacts[]): RefusedReservation | undefined {
  for (const { id, requests, requests_per_minute, running, concurrent } of quotas) {
    if (requests_per_minute !== null && requests >= requests_per_minute)
      return refuse('quota', 'quota.requests_per_minute', id)
    if (concurrent !== null && running >= concurrent) return refuse('quota', 'quota.concurrent', id)
  }
  return undefined
}

function noHeadroom(
  capacities: readonly Headroom[],
  least: number,
  by: RefusedReservation['by'],
  rule: string,
): RefusedReservation | undefined {
  const tight = capacities.find(({ room: available }) => available < least)
  return tight && refuse(by, rule, tight.id)
}

/** Returns when the last of the exhausted windows ends. Null when even an empty window would be too small. */
function findRetryTime(
  budgets: readonly BudgetFacts[],
  call: ReservationFacts,
  least: number,
): number | null {
  const ends = budgets
    .filter((each) => budgetHeadroom(each, call) < least)
    .map((each) => {
      const empty = { ...each, spent_nano_usd: 0, held_nano_usd: 0, spent_tokens: 0, held_tokens: 0 }
      return budgetHeadroom(empty, call) < least ? null : windowEnd(each.period, each.window_start_ms)
    })
  return ends.includes(null) ? null : Math.max(...(ends as number[]))
}

/** Returns whether the call would fit if all holds were released. If so, a retry is useful. */
export function fitsWithoutHolds({ budgets, call }: ReservationInput): boolean {
  const least = leastCap(call)
  return budgets.every((each) => budgetHeadroom({ ...each, held_nano_usd: 0, held_tokens: 0 }, call) >= least)
}

function refuse(by: RefusedReservation['by'], rule: string, subject: string): RefusedReservation {
  return { effect: 'deny', by, rule, subject, retryAtMs: null }
}

/** Returns the price in the format of the rest of the ledger. */
export function callPrice({ price }: Pick<ReservationFacts, 'price'>): Price | null {
  return (
    price && {
      inputNanoUsdPerMtok: price.input_nano_usd_per_mtok,
      cacheReadNanoUsdPerMtok: price.cache_read_nano_usd_per_mtok,
      cacheWriteNanoUsdPerMtok: price.cache_write_nano_usd_per_mtok,
      outputNanoUsdPerMtok: price.output_nano_usd_per_mtok,
    }
  )
}

export function priceFacts(price: Price | null): ReservationFacts['price'] {
  return (
    price && {
      input_nano_usd_per_mtok: price.inputNanoUsdPerMtok,
      cache_read_nano_usd_per_mtok: price.cacheReadNanoUsdPerMtok,
      cache_write_nano_usd_per_mtok: price.cacheWriteNanoUsdPerMtok,
      output_nano_usd_per_mtok: price.outputNanoUsdPerMtok,
    }
  )
}
