/** Describes in one line why a call does not fit. */

import { setCommandOf } from './budgets-and-quotas.ts'
import {
  type BudgetFacts,
  fitsWithoutHolds,
  leastAmount,
  type QuotaFacts,
  type RefusedReservation,
  type ReservationFacts,
  type ReservationInput,
} from './evaluate-reservation.ts'
import { formatTokens, formatUsd } from './money.ts'

/** The calls behind the held amount. Dead processes leave holds that only the sweep settles. */
export interface HeldBudget {
  readonly calls: number
  readonly underWay: number
}

export function describeRefusal(
  input: ReservationInput,
  { rule, subject }: RefusedReservation,
  retryAtMs: number | undefined,
  inUse?: HeldBudget,
): string {
  const { call, quotas, budgets, now_ms } = input
  const quota = quotas.find(({ id }) => id === subject)
  const budget = budgets.find(({ budget_id }) => budget_id === subject)
  const when = retryAtMs === undefined ? '' : `; available again ${whenOf(retryAtMs, now_ms)}`
  if (rule.endsWith('.uncapped')) return `${subject} requires an output limit, which this call cannot have`
  if (quota !== undefined) return `${describeQuota(quota, rule, call)}${when}`
  if (budget === undefined) return rule
  if (rule === 'budget.unpriced')
    return `the price of ${call.model} is unknown, and ${subject} limits dollars`
  const { left, held } = remainingOf(budget, call)
  if (held === undefined || inUse === undefined) return `${subject} has ${left}${when}`
  const holderNames = `${held} held by ${describeHolds(inUse)}`
  const next = isWorthWaiting(input, inUse)
    ? `; try again when ${inUse.calls === 1 ? 'it ends' : 'they end'}`
    : when
  return `${subject} has ${left}; ${holderNames}${next}`
}

/** Returns the next command to run. */
export function hintOf(
  input: ReservationInput,
  { by, rule, subject }: RefusedReservation,
  inUse: HeldBudget | undefined,
): string {
  const budget = input.budgets.find(({ budget_id }) => budget_id === subject)
  if (rule === 'budget.unpriced' && budget !== undefined) {
    const command = setCommandOf({ ...budget, id: budget.budget_id, allow_unpriced: true })
    return `allow calls with an unknown price:  ${command}`
  }
  if (rule === 'budget.exhausted' && inUse !== undefined && isWorthWaiting(input, inUse))
    return `try again when the running calls end; show what they hold:  craik budget show ${subject}`
  return `show what is left:  craik ${by} show`
}

/** Holds of dead processes count as spent in the end, so only running calls can free any amount. */
function isWorthWaiting(input: ReservationInput, { underWay }: HeldBudget): boolean {
  return underWay > 0 && fitsWithoutHolds(input)
}

function describeHolds({ calls, underWay }: HeldBudget): string {
  const dead = calls - underWay
  const running = `${underWay} running call${underWay === 1 ? '' : 's'}`
  const lost = `${dead} call${dead === 1 ? '' : 's'} whose process died`
  if (dead === 0) return running
  return underWay === 0 ? lost : `${running} and ${lost}`
}

function describeQuota(quota: QuotaFacts, rule: string, call: ReservationFacts): string {
  const { id, requests, requests_per_minute, tokens, tokens_per_minute, running, concurrent } = quota
  switch (rule) {
    case 'quota.requests_per_minute':
      return `${id} had ${requests} of ${requests_per_minute} requests in the last minute`
    case 'quota.concurrent':
      return `${id} has ${running} of ${concurrent} requests running; available again when one of them ends`
    default: {
      const taken = `${tokens.toLocaleString('en')} of ${formatTokens(tokens_per_minute!)}`
      return `${id} had ${taken} in the last minute, and this call needs ${formatTokens(leastAmount(call).tokens)}`
    }
  }
}

interface Left {
  readonly left: string
  /** For example `$1.90 is`. `undefined` while nothing is held. */
  readonly held?: string | undefined
}

/** Returns `$0.10 left of $2.00 per day, and this call needs $0.24`, and the held amount in the unit that is short. */
function remainingOf(budget: BudgetFacts, call: ReservationFacts): Left {
  const { limit_nano_usd, spent_nano_usd, held_nano_usd, limit_tokens, spent_tokens, held_tokens } = budget
  const needs = leastAmount(call)
  const per = budget.period === 'life' ? '' : ` per ${budget.period}`
  const dollars =
    needs.nanoUsd > 0 && short(limit_nano_usd, spent_nano_usd, held_nano_usd, needs.nanoUsd, per, formatUsd)
  if (dollars)
    return { left: dollars, held: held_nano_usd === 0 ? undefined : `${formatUsd(held_nano_usd)} is` }
  const tokens = short(limit_tokens, spent_tokens, held_tokens, needs.tokens, per, formatTokens)
  const verb = held_tokens === 1 ? 'is' : 'are'
  return {
    left: tokens ?? 'nothing left',
    held: tokens === undefined || held_tokens === 0 ? undefined : `${formatTokens(held_tokens)} ${verb}`,
  }
}

function short(
  limit: number | null,
  spent: number,
  held: number,
  needs: number,
  per: string,
  format: (amount: number) => string,
): string | undefined {
  if (limit === null || spent + held + needs <= limit) return undefined
  const left = format(Math.max(0, limit - spent - held))
  return `${left} left of ${format(limit)}${per}, and this call needs ${format(needs)}`
}

function whenOf(atMs: number, nowMs: number): string {
  const seconds = Math.ceil((atMs - nowMs) / 1000)
  return seconds < 3600 ? `in ${seconds} s` : `at ${new Date(atMs).toISOString()}`
}
