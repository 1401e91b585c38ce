/** Why a call did not fit, in one line for a person. */
import {
  type BudgetFacts,
  type CallFacts,
  leastAmount,
  type QuotaFacts,
  type Refused,
  type ReservationInput,
} from './judge.ts'
import { formatTokens, formatUsd } from './money.ts'

export function describeRefusal(
  { call, quotas, budgets, now_ms }: ReservationInput,
  { rule, subject }: Refused,
  retryAtMs: number | undefined,
): string {
  const quota = quotas.find(({ id }) => id === subject)
  const budget = budgets.find(({ budget_id }) => budget_id === subject)
  const when = retryAtMs === undefined ? '' : `; room again ${whenOf(retryAtMs, now_ms)}`
  if (rule.endsWith('.uncapped')) return `${subject} needs an output cap, and none can be set on this call`
  if (quota !== undefined) return `${describeQuota(quota, rule, call)}${when}`
  if (budget === undefined) return rule
  if (rule === 'budget.unpriced')
    return `the price of ${call.model} is not known, and ${subject} limits dollars`
  return `${subject} has ${leftOf(budget, call)}${when}`
}

function describeQuota(quota: QuotaFacts, rule: string, call: CallFacts): string {
  const { id, requests, requests_per_minute, tokens, tokens_per_minute, running, concurrent } = quota
  switch (rule) {
    case 'quota.requests_per_minute':
      return `${id} had ${requests} of ${requests_per_minute} requests in the last minute`
    case 'quota.concurrent':
      return `${id} has ${running} of ${concurrent} requests running; room again when one of them ends`
    default: {
      const taken = `${tokens.toLocaleString('en')} of ${formatTokens(tokens_per_minute!)}`
      return `${id} had ${taken} in the last minute, and this call needs ${formatTokens(leastAmount(call).tokens)}`
    }
  }
}

/** `$0.10 left of $2.00 per day ($1.90 held by calls in flight), and this call needs $0.24`, of what is short. */
function leftOf(budget: BudgetFacts, call: CallFacts): string {
  const { limit_nano_usd, spent_nano_usd, held_nano_usd, limit_tokens, spent_tokens, held_tokens } = budget
  const needs = leastAmount(call)
  const per = budget.period === 'life' ? '' : ` per ${budget.period}`
  const dollars =
    needs.nanoUsd > 0 && short(limit_nano_usd, spent_nano_usd, held_nano_usd, needs.nanoUsd, per, formatUsd)
  return (
    dollars || short(limit_tokens, spent_tokens, held_tokens, needs.tokens, per, formatTokens) || 'no room'
  )
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
  const inFlight = held === 0 ? '' : ` (${format(held)} held by calls in flight)`
  const left = format(Math.max(0, limit - spent - held))
  return `${left} left of ${format(limit)}${per}${inFlight}, and this call needs ${format(needs)}`
}

function whenOf(atMs: number, nowMs: number): string {
  const seconds = Math.ceil((atMs - nowMs) / 1000)
  return seconds < 3600 ? `in ${seconds} s` : `at ${new Date(atMs).toISOString()}`
}
