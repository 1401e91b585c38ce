/**
 * Rebuilds the ledger from its receipts. It evaluates every decision again and rebuilds every balance in order, and
 * compares the receipts with both.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Receipt } from '../../receipts/schema.ts'
import { CallPairing, type CallReport } from './call-pairing.ts'
import {
  type BalanceFacts,
  callPrice,
  evaluateReservation,
  type ReservationInput,
  reservationInput,
  usesNoTokens,
} from './evaluate-reservation.ts'
import {
  type BookedEntry,
  type LedgerEntry,
  type Limits,
  type ReservedEntry,
  readEntry,
  resultOf,
} from './ledger-entries.ts'
import { BudgetPeaks, type BudgetReport } from './peaks.ts'
import { keyOf, type RebuiltBook, type RebuiltHold } from './rebuild-ledger.ts'
import { bookingOf } from './settle.ts'
import { windowStart } from './windows.ts'

type Body = Receipt['body']

export interface LedgerReport {
  readonly budgets: readonly BudgetReport[]
  readonly calls: CallReport
  /** The state from before the log begins, which cannot be rebuilt. */
  readonly notRebuilt: readonly string[]
  /** The expected content of the tables in the log's home. */
  readonly book: RebuiltBook
}

export type LedgerOutcome = 'agrees' | 'not_replayable' | { readonly differs: string }

/**
 * The maximum time between reading the clock and sealing the receipt. A decision of another day would count in another
 * window.
 */
const CLOCK_SLACK_MS = 60_000

const NOTHING = { spent_nano_usd: 0, held_nano_usd: 0, spent_tokens: 0, held_tokens: 0 }

export class LedgerReplay {
  readonly #complete: boolean
  readonly #budgets = new Map<string, BudgetPeaks>()
  readonly #balances = new Map<string, BalanceFacts>()
  readonly #holds = new Map<string, RebuiltHold>()
  readonly #notRebuilt = new Set<string>()
  readonly #calls: CallPairing
  /** The first hold that is settled in this log but was created before it begins. */
  #inFlight: string | undefined

  /**
   * A log that does not start with its first receipt refers to earlier budgets and holds. Replay accepts those as they
   * are stated. `differs` gets the problems with calls, possibly for a receipt that `receipt` accepted before.
   */
  constructor(firstSeq: number, differs: (seq: number, id: string, detail: string) => void) {
    this.#complete = firstSeq === 0
    this.#calls = new CallPairing(this.#complete, differs)
  }

  /** Takes the receipts of model calls, in order with the others. */
  call(body: Body, { seq }: Pick<Receipt['seal'], 'seq'>): void {
    if (body.phase === 'begin') this.#calls.began(body, seq)
    else if (body.phase === 'end') this.#calls.recordEnd(body, seq)
  }

  /** Takes the receipts of kind `budget`, in order. */
  receipt(body: Body, seal: Pick<Receipt['seal'], 'seq' | 'at'>): LedgerOutcome {
    const entry = readEntry(body)
    if (entry === undefined) return { differs: 'it is not a valid ledger entry' }
    switch (entry.type) {
      case 'other':
        return 'agrees'
      case 'set':
      case 'remove':
        return toOutcome(this.#change(entry, seal))
      case 'refused':
        return this.#decide(body, entry, seal)
      case 'reserved': {
        const decided = this.#decide(body, entry, seal)
        const unpaired = this.#calls.recordReservation(body, entry.entry.hold_id)
        return unpaired === undefined || typeof decided === 'object' ? decided : { differs: unpaired }
      }
      default: {
        const unpaired = this.#calls.checkBooking(body, entry.type, entry.entry.hold_id)
        return toOutcome(this.#book(entry.type, entry.entry, seal.seq) ?? unpaired)
      }
    }
  }

  /** Called after the last receipt. */
  finish(): LedgerReport {
    const calls = this.#calls.finish()
    if (this.#inFlight !== undefined)
      this.#notRebuilt.add(`calls in flight when this log begins, such as ${this.#inFlight}`)
    if (this.#calls.reachesBack) this.#notRebuilt.add('reservations of calls that began before this log')
    const budgets = [...this.#budgets.values()].map((budget) => budget.report())
    return {
      budgets: budgets.sort((a, b) => (a.id < b.id ? -1 : 1)),
      calls,
      notRebuilt: [...this.#notRebuilt].sort(),
      book: { budgets: this.#budgets, balances: this.#balances, holds: this.#holds },
    }
  }

  #change(
    { type, id, limits }: Extract<LedgerEntry, { type: 'set' | 'remove' }>,
    seal: Pick<Receipt['seal'], 'seq' | 'at'>,
  ): string | undefined {
    const known = this.#budgets.get(id)
    if (type === 'remove') {
      if (known === undefined && this.#complete) return `it removes budget ${id}, which was never set`
      if (known !== undefined) known.removed = true
      return undefined
    }
    if (known === undefined) {
      this.#budgets.set(id, new BudgetPeaks(id, limits))
      return undefined
    }
    if (known.limits.scope_kind !== limits.scope_kind || known.limits.scope_ref !== limits.scope_ref)
      return `it changes the scope of budget ${id}`
    known.set(limits)
    const { period } = limits
    const window = { budget_id: id, period, window_start_ms: windowStart(period, Date.parse(seal.at)) }
    const balance = this.#balances.get(keyOf(window))
    if (balance !== undefined) known.recordSpending(balance, seal.seq, false)
    return undefined
  }

  #decide(
    body: Body,
    entry: Extract<LedgerEntry, { type: 'reserved' | 'refused' }>,
    seal: Pick<Receipt['seal'], 'seq' | 'at'>,
  ): LedgerOutcome {
    const parsed = body.decision?.replayable ? reservationInput.safeParse(body.decision.input) : undefined
    if (parsed?.success === false || body.decision === undefined)
      return { differs: 'cannot parse the input of its decision' }
    const input = parsed?.data
    const problem =
      (input &&
        (this.#findDecisionMismatch(body, entry, input, Date.parse(seal.at)) ??
          this.#findInputMismatch(input))) ??
      (entry.type === 'reserved' ? this.#hold(entry.entry, input) : undefined)
    if (problem !== undefined && entry.type === 'reserved') this.#believe(entry.entry, input)
    return problem === undefined && input === undefined ? 'not_replayable' : toOutcome(problem)
  }

  /** Evaluates the decision again and compares the results. */
  #findDecisionMismatch(
    { operator, target, links, decision, capability }: Body,
    entry: Extract<LedgerEntry, { type: 'reserved' | 'refused' }>,
    input: ReservationInput,
    sealedAtMs: number,
  ): string | undefined {
    const { call } = input
    const same =
      call.operator === operator &&
      call.provider_id === target &&
      call.provider_id === links.provider_id &&
      call.session_id === (links.session_id ?? null)
    if (!same) return 'its decision is about a different call'
    if (Math.abs(sealedAtMs - input.now_ms) > CLOCK_SLACK_MS) return 'its decision is for a different time'
    const verdict = evaluateReservation(input)
    const output = `recorded ${decision!.effect} by ${decision!.rule}; recomputing gives another result`
    if (verdict.effect !== decision!.effect || verdict.rule !== decision!.rule) return output
    if (verdict.effect === 'deny') {
      const agrees =
        entry.type === 'refused' &&
        verdict.subject === entry.subject &&
        capability === `${verdict.by}.reserve`
      return agrees ? undefined : output
    }
    if (entry.type !== 'reserved') return output
    const { nano_usd, tokens, max_output_tokens, lowered } = entry.entry
    const agrees =
      verdict.nanoUsd === nano_usd &&
      verdict.tokens === tokens &&
      verdict.cap === max_output_tokens &&
      verdict.lowered === lowered
    return agrees ? undefined : 'its hold or cap differs from the recomputed one'
  }

  /** Checks that the decision used all budgets that apply, with their limits and balances at that moment. */
  #findInputMismatch({ schema, call, budgets, now_ms }: ReservationInput): string | undefined {
    if (schema === 'craik.quota_decision/1') return budgets.length === 0 ? undefined : 'it lists budgets'
    for (const stated of budgets) {
      const { scope_kind, scope_ref, period, limit_nano_usd, limit_tokens, allow_unpriced, ...rest } = stated
      const limits = { scope_kind, scope_ref, period, limit_nano_usd, limit_tokens, allow_unpriced }
      const balance: BalanceFacts = { ...rest, period }
      const { budget_id } = balance
      if (!this.#budgets.has(budget_id) && !this.#complete) this.#adopt(budget_id, limits)
      const known = this.#budgets.get(budget_id)
      if (known === undefined || known.removed) return `it names budget ${budget_id}, which is not in force`
      if (!isDeepStrictEqual(known.limits, limits))
        return `its limits of ${budget_id} differ from those that were set`
      if (balance.window_start_ms !== windowStart(period, now_ms))
        return `it counts in the wrong window of ${budget_id}`
      const problem = this.#compare(balance)
      if (problem !== undefined) return problem
    }
    const named = new Set(budgets.map(({ budget_id }) => budget_id))
    const left = [...this.#budgets.values()].find(
      (known) => !known.removed && !named.has(known.id) && appliesTo(known.limits, call),
    )
    return left && `it omits budget ${left.id}, which applies`
  }

  #hold(entry: ReservedEntry, input: ReservationInput | undefined): string | undefined {
    if (this.#holds.has(entry.hold_id)) return `hold ${entry.hold_id} already exists`
    const keys = input?.budgets.map(keyOf) ?? entry.balances.map(keyOf)
    if (!isDeepStrictEqual(keys, entry.balances.map(keyOf)))
      return 'its hold and its decision name different budgets'
    this.#holds.set(entry.hold_id, holdOf(entry, input))
    for (const stated of entry.balances) {
      const before = this.#balance(stated)
      this.#balances.set(keyOf(stated), {
        ...before,
        held_nano_usd: before.held_nano_usd + entry.nano_usd,
        held_tokens: before.held_tokens + entry.tokens,
      })
    }
    return findFirstProblem(entry.balances, (stated) => this.#compare(stated))
  }

  #book(type: 'settle' | 'release' | 'indeterminate', entry: BookedEntry, seq: number): string | undefined {
    const hold = this.#holds.get(entry.hold_id)
    if (hold === undefined) {
      if (this.#complete)
        return `hold ${entry.hold_id} is not open: it was never created, or is already settled or released`
      this.#inFlight ??= entry.hold_id
      for (const stated of entry.balances) this.#balances.set(keyOf(stated), stated)
      return undefined
    }
    this.#holds.delete(entry.hold_id)
    const problem = findBookingMismatch(type, hold, entry)
    if (!isDeepStrictEqual(hold.keys, entry.balances.map(keyOf)))
      return `hold ${entry.hold_id} is settled in different budgets than it was created in`
    for (const stated of entry.balances) {
      const before = this.#balance(stated)
      const after = {
        ...before,
        held_nano_usd: before.held_nano_usd - hold.nanoUsd,
        held_tokens: before.held_tokens - hold.tokens,
        spent_nano_usd: Math.min(before.spent_nano_usd + entry.nano_usd, Number.MAX_SAFE_INTEGER),
        spent_tokens: Math.min(before.spent_tokens + entry.tokens, Number.MAX_SAFE_INTEGER),
      }
      this.#balances.set(keyOf(stated), after)
    }
    return (
      problem ??
      findFirstProblem(
        entry.balances,
        (stated) => this.#compare(stated) ?? this.#peak(stated, seq, entry.overrun),
      )
    )
  }

  #peak(balance: BalanceFacts, seq: number, overrun: boolean): string | undefined {
    const known = this.#budgets.get(balance.budget_id)
    if (known === undefined || known.limits.period !== balance.period) return undefined
    return known.recordSpending(balance, seq, overrun)
      ? undefined
      : `budget ${balance.budget_id} is exceeded, and no overrun explains it`
  }

  /** Reports a difference once: later receipts are compared with the balance that this receipt states. */
  #compare(stated: BalanceFacts): string | undefined {
    const key = keyOf(stated)
    if (!this.#balances.has(key) && !this.#complete) {
      this.#notRebuilt.add(`spending of ${stated.budget_id} before this log begins`)
      this.#balances.set(key, stated)
    }
    const rebuilt = this.#balance(stated)
    if (isDeepStrictEqual(rebuilt, toBalance(stated))) return undefined
    this.#balances.set(key, toBalance(stated))
    return `its balance of ${stated.budget_id} differs from the sum of its receipts`
  }

  /** The receipt is wrong, but later receipts settle its hold. Keeps the hold as the receipt states it. */
  #believe(entry: ReservedEntry, input: ReservationInput | undefined): void {
    this.#holds.set(entry.hold_id, holdOf(entry, input))
    for (const stated of entry.balances) this.#balances.set(keyOf(stated), toBalance(stated))
  }

  #adopt(id: string, limits: Limits): void {
    this.#budgets.set(id, new BudgetPeaks(id, limits))
    this.#notRebuilt.add(`spending of ${id} before this log begins`)
  }

  #balance(at: BalanceFacts): BalanceFacts {
    return this.#balances.get(keyOf(at)) ?? { ...toBalance(at), ...NOTHING }
  }
}

function holdOf(entry: ReservedEntry, input: ReservationInput | undefined): RebuiltHold {
  return {
    nanoUsd: entry.nano_usd,
    tokens: entry.tokens,
    capped: entry.max_output_tokens !== null,
    keys: entry.balances.map(keyOf),
    terms: input && { price: callPrice(input.call), billing: input.call.billing },
  }
}

/** Computes the booked amounts again, from the price of the hold and the reported usage. */
function findBookingMismatch(
  type: 'settle' | 'release' | 'indeterminate',
  hold: RebuiltHold,
  entry: BookedEntry,
): string | undefined {
  if (hold.terms === undefined) return undefined
  const again = bookingOf({ ...hold, ...hold.terms }, resultOf(type, entry))
  const agrees =
    again.nanoUsd === entry.nano_usd &&
    again.tokens === entry.tokens &&
    again.overrun === entry.overrun &&
    (type === 'indeterminate' || again.costNanoUsd === entry.cost_nano_usd)
  return agrees ? undefined : 'its amount differs from its usage and price'
}

function appliesTo({ scope_kind, scope_ref }: Limits, call: ReservationInput['call']): boolean {
  if (usesNoTokens(call)) return false
  switch (scope_kind) {
    case 'provider':
      return scope_ref === call.provider_id
    case 'session':
      return scope_ref === call.session_id
    case 'sandbox':
      return scope_ref === call.sandbox_id
    case 'operator':
      return scope_ref === call.operator
    case 'total':
      return true
  }
}

/** Returns only the fields of the balance. */
function toBalance(facts: BalanceFacts): BalanceFacts {
  const { budget_id, period, window_start_ms, spent_nano_usd, held_nano_usd, spent_tokens, held_tokens } =
    facts
  return { budget_id, period, window_start_ms, spent_nano_usd, held_nano_usd, spent_tokens, held_tokens }
}

function findFirstProblem<T>(
  items: readonly T[],
  problem: (item: T) => string | undefined,
): string | undefined {
  let found: string | undefined
  for (const item of items) {
    const one = problem(item)
    found ??= one
  }
  return found
}

function toOutcome(problem: string | undefined): LedgerOutcome {
  return problem === undefined ? 'agrees' : { differs: problem }
}
