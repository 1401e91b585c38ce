/** Formats what the replay of a log found about budgets and calls, as JSON and as a line for the user. */
import type { Json } from '../../lib/canonical-json.ts'
import type { CallReport } from '../../providers/ledger/call-pairing.ts'
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

/** Formats calls, such as `301 calls, each with its own hold · 2 not settled yet`. */
export function describeCalls({ begun, reserved, open }: CallReport): string {
  const calls = `${begun.toLocaleString('en')} call${begun === 1 ? '' : 's'}`
  const paired = reserved === begun ? 'each with' : `${reserved.toLocaleString('en')} with`
  const unsettled = open === 0 ? '' : ` · ${open.toLocaleString('en')} not settled yet`
  return `${calls}, ${paired} its own hold${unsettled}`
}

/** Formats a budget, such as `budget team-eng: peak $48.20 of $50.00, never exceeded`. */
export function describeBudget({ id, peak, exceeded }: BudgetReport): string {
  const { nanoUsd, ofNanoUsd, tokens, ofTokens } = peak
  const parts = [
    ofNanoUsd === null ? undefined : `${formatUsd(nanoUsd)} of ${formatUsd(ofNanoUsd)}`,
    ofTokens === null ? undefined : `${tokens.toLocaleString('en')} of ${formatTokens(ofTokens)}`,
  ].filter((part) => part !== undefined)
  const peaks = parts.length === 0 ? `${formatUsd(nanoUsd)}, ${formatTokens(tokens)}` : parts.join(', ')
  return `${id.startsWith('budget_') ? id : `budget ${id}`}: peak ${peaks}, ${describeExcess(exceeded)}`
}

function describeExcess(exceeded: BudgetReport['exceeded']): string {
  if (exceeded === null) return 'never exceeded'
  const { unit, by, cause, seq } = exceeded
  const amount = unit === 'nano_usd' ? formatUsd(by) : formatTokens(by)
  const why = {
    overrun: 'a provider reported more than the hold of the call (overrun)',
    limit_lowered: 'the limit was set below the amount spent or on hold',
    unexplained: 'no receipt explains it',
  }[cause]
  return `exceeded by ${amount} at receipt ${seq}: ${why}`
}
