/**
 * Whether a call fits its quotas and budgets, and with which output cap: a pure function of what its receipt keeps,
 * used when the call is admitted and again when the log is replayed.
 */
import { z } from 'zod'
import { BUDGET_SCOPES, PERIODS, QUOTA_SCOPES } from '../../store/ledger-tables.ts'
import { highestInputPrice, TOKENS_PER_MTOK, worstCase } from './money.ts'
import type { Price } from './tokens.ts'
import { windowEnd } from './windows.ts'

/** An answer that is cut before this is worth nothing, so a call is denied instead. */
const LEAST_CAP_TOKENS = 1024
/** For calls that name no cap. Today's larger models accept it, and it does not hold a whole budget for one call. */
export const MISSING_CAP_TOKENS = 32_000

const MAX_INPUT_BYTES = 2 ** 28
const MAX_CAP_TOKENS = 100_000_000
/** A thousand times the dearest price there is would still fit. */
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

/** A quota's denial comes before any budget is looked at, so it lists none. */
export const reservationInput = z.strictObject({
  schema: z.enum(['craik.budget_decision/1', 'craik.quota_decision/1']),
  now_ms: z.int(),
  call,
  quotas: z.array(quota),
  budgets: z.array(budget),
})

export type ReservationInput = z.infer<typeof reservationInput>
export type CallFacts = ReservationInput['call']
export type QuotaFacts = ReservationInput['quotas'][number]
export type BudgetFacts = ReservationInput['budgets'][number]
export type BalanceFacts = z.infer<typeof balanceFacts>

export interface Reserved {
  readonly effect: 'allow'
  readonly rule: 'budget.fits' | 'budget.none_applies'
  /** Null: the call stays without a cap. */
  readonly cap: number | null
  readonly lowered: boolean
  readonly nanoUsd: number
  readonly tokens: number
}

export interface RefusedReservation {
  readonly effect: 'deny'
  readonly by: 'budget' | 'quota'
  readonly rule: string
  /** The budget or quota that says no. */
  readonly subject: string
  /** Of budgets: when the windows in the way end. Null: time alone does not mend it. */
  readonly retryAtMs: number | null
}

export type ReservationVerdict = Reserved | RefusedReservation

export function evaluateReservation(input: ReservationInput): ReservationVerdict {
  const { call, quotas, budgets } = input
  const least = leastCap(call)
  const quotaRooms = quotas.map((each) => ({ id: each.id, room: quotaRoom(each, call) }))
  const busy = firstBusy(quotas) ?? noRoom(quotaRooms, least, 'quota', 'quota.tokens_per_minute')
  if (busy !== undefined) return busy
  const unpriced = budgets.find((each) => isUnpriced(each, call))
  if (unpriced !== undefined) return refused('budget', 'budget.unpriced', unpriced.budget_id)

  const budgetRooms = budgets.map((each) => ({ id: each.budget_id, room: budgetRoom(each, call) }))
  const full = noRoom(budgetRooms, least, 'budget', 'budget.exhausted')
  if (full !== undefined) return { ...full, retryAtMs: whenRoomy(budgets, call, least) }
  const tightest = [...quotaRooms, ...budgetRooms].reduce<Room>((a, b) => (b.room < a.room ? b : a), NO_LIMIT)
  const asked = call.max_output_tokens
  const cap = tightest.room === Infinity ? asked : Math.min(asked ?? MISSING_CAP_TOKENS, tightest.room)
  const lowered = cap !== asked
  if (lowered && !call.cap_can_be_set) {
    const by = budgetRooms.includes(tightest) ? 'budget' : 'quota'
    return refused(by, `${by}.uncapped`, tightest.id)
  }
  return {
    effect: 'allow',
    rule: budgets.length === 0 ? 'budget.none_applies' : 'budget.fits',
    cap,
    lowered,
    ...worstAmount(call, cap),
  }
}

/** The least that a call needs: its input, and an answer that is worth having. */
export function leastAmount(call: CallFacts): { nanoUsd: number; tokens: number } {
  return worstAmount(call, leastCap(call))
}

function leastCap({ max_output_tokens }: CallFacts): number {
  return Math.min(max_output_tokens ?? LEAST_CAP_TOKENS, LEAST_CAP_TOKENS)
}

/** What is held for a call in every budget that applies. A missing cap counts the input alone. */
function worstAmount(call: CallFacts, cap: number | null): { nanoUsd: number; tokens: number } {
  const tokens = call.input_bytes + (cap ?? 0)
  const price = call.billing === 'metered' ? callPrice(call) : null
  return { tokens, nanoUsd: price === null ? 0 : worstCase(price, call.input_bytes, cap ?? 0) }
}

interface Room {
  readonly id: string
  /** The largest cap that fits; below zero: not even the input does. */
  readonly room: number
}

const NO_LIMIT: Room = { id: '', room: Infinity }

/** Such as counting tokens: a request like others, of which none is an answer by a model, so that no budget is about it. */
export function asksNothing({ input_bytes }: Pick<CallFacts, 'input_bytes'>): boolean {
  return input_bytes === 0
}

function quotaRoom({ tokens_per_minute, tokens }: QuotaFacts, call: CallFacts): number {
  return tokens_per_minute === null || asksNothing(call)
    ? Infinity
    : tokens_per_minute - tokens - call.input_bytes
}

/** Taken from the limit before all: what was spent and what is held. */
function budgetRoom(budget: BudgetFacts, call: CallFacts): number {
  const { limit_tokens, spent_tokens, held_tokens } = budget
  const byTokens =
    limit_tokens === null ? Infinity : limit_tokens - spent_tokens - held_tokens - call.input_bytes
  return Math.min(byTokens, dollarRoom(budget, call))
}

function dollarRoom(budget: BudgetFacts, call: CallFacts): number {
  const price = call.billing === 'metered' ? callPrice(call) : null
  if (price === null || budget.limit_nano_usd === null) return Infinity
  const left = BigInt(budget.limit_nano_usd) - BigInt(budget.spent_nano_usd) - BigInt(budget.held_nano_usd)
  const inputCost = BigInt(call.input_bytes) * BigInt(highestInputPrice(price))
  const forOutput = left * TOKENS_PER_MTOK - inputCost
  if (price.outputNanoUsdPerMtok === 0) return inputCost === 0n || forOutput >= 0n ? Infinity : -1
  if (forOutput < 0n) return -1
  return Number(forOutput / BigInt(price.outputNanoUsdPerMtok))
}

/** Not known is not free: a limit in dollars cannot be kept then. */
function isUnpriced({ limit_nano_usd, allow_unpriced }: BudgetFacts, { billing, price }: CallFacts): boolean {
  return billing === 'metered' && price === null && limit_nano_usd !== null && !allow_unpriced
}

/** The first quota that is used up whatever a call asks for. */
export function firstBusy(quotas: readonly QuotaFacts[]): RefusedReservation | undefined {
  for (const { id, requests, requests_per_minute, running, concurrent } of quotas) {
    if (requests_per_minute !== null && requests >= requests_per_minute)
      return refused('quota', 'quota.requests_per_minute', id)
    if (concurrent !== null && running >= concurrent) return refused('quota', 'quota.concurrent', id)
  }
  return undefined
}

function noRoom(
  rooms: readonly Room[],
  least: number,
  by: RefusedReservation['by'],
  rule: string,
): RefusedReservation | undefined {
  const tight = rooms.find(({ room }) => room < least)
  return tight && refused(by, rule, tight.id)
}

/** When the last of the windows ends that leave too little room; null if an empty one would leave too little too. */
function whenRoomy(budgets: readonly BudgetFacts[], call: CallFacts, least: number): number | null {
  const ends = budgets
    .filter((each) => budgetRoom(each, call) < least)
    .map((each) => {
      const empty = { ...each, spent_nano_usd: 0, held_nano_usd: 0, spent_tokens: 0, held_tokens: 0 }
      return budgetRoom(empty, call) < least ? null : windowEnd(each.period, each.window_start_ms)
    })
  return ends.includes(null) ? null : Math.max(...(ends as number[]))
}

/** Whether the call would fit if all that is held were given back: then it is worth trying again. */
export function fitsWithoutHolds({ budgets, call }: ReservationInput): boolean {
  const least = leastCap(call)
  return budgets.every((each) => budgetRoom({ ...each, held_nano_usd: 0, held_tokens: 0 }, call) >= least)
}

function refused(by: RefusedReservation['by'], rule: string, subject: string): RefusedReservation {
  return { effect: 'deny', by, rule, subject, retryAtMs: null }
}

/** The price as the rest of the ledger spells it. */
export function callPrice({ price }: Pick<CallFacts, 'price'>): Price | null {
  return (
    price && {
      inputNanoUsdPerMtok: price.input_nano_usd_per_mtok,
      cacheReadNanoUsdPerMtok: price.cache_read_nano_usd_per_mtok,
      cacheWriteNanoUsdPerMtok: price.cache_write_nano_usd_per_mtok,
      outputNanoUsdPerMtok: price.output_nano_usd_per_mtok,
    }
  )
}

export function priceFacts(price: Price | null): CallFacts['price'] {
  return (
    price && {
      input_nano_usd_per_mtok: price.inputNanoUsdPerMtok,
      cache_read_nano_usd_per_mtok: price.cacheReadNanoUsdPerMtok,
      cache_write_nano_usd_per_mtok: price.cacheWriteNanoUsdPerMtok,
      output_nano_usd_per_mtok: price.outputNanoUsdPerMtok,
    }
  )
}
