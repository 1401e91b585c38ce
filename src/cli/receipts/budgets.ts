/** What the replay of a log found out about a budget, as JSON and as a line for a person. */
import type { Json } from '../../lib/canonical-json.ts'
import { formatTokens, formatUsd } from '../../providers/ledger/money.ts'
import type { BudgetReport } from '../../providers/ledger/peaks.ts'

export function budgetJson({ id, period, limitNanoUsd, limitTokens, peak, exceeded }: BudgetReport): Json {
  return {
    id,
    period,
    limit_nano_usd: limitNanoUsd,
    limit_tokens: limitTokens,
    peak_nano_usd: peak.nanoUsd,
    peak_tokens: peak.tokens,
    exceeded: exceeded && { ...exceeded },
  }
}

/** `budget team-eng: peak $48.20 of $50.00, never exceeded` */
export function describeBudget({ id, peak, exceeded }: BudgetReport): string {
  const { nanoUsd, ofNanoUsd, tokens, ofTokens } = peak
  const parts = [
    ofNanoUsd === null ? undefined : `${formatUsd(nanoUsd)} of ${formatUsd(ofNanoUsd)}`,
    ofTokens === null ? undefined : `${tokens.toLocaleString('en')} of ${formatTokens(ofTokens)}`,
  ].filter((part) => part !== undefined)
  const peaks = parts.length === 0 ? `${formatUsd(nanoUsd)}, ${formatTokens(tokens)}` : parts.join(', ')
  return `${id.startsWith('budget_') ? id : `budget ${id}`}: peak ${peaks}, ${howFar(exceeded)}`
}

function howFar(exceeded: BudgetReport['exceeded']): string {
  if (exceeded === null) return 'never exceeded'
  const { unit, by, cause, seq } = exceeded
  const amount = unit === 'nano_usd' ? formatUsd(by) : formatTokens(by)
  const why = {
    overrun: 'a provider reported more than could be held for the call (overrun)',
    limit_lowered: 'the limit was set below what was spent or held',
    unexplained: 'nothing on record explains it',
  }[cause]
  return `exceeded by ${amount} at receipt ${seq}: ${why}`
}
