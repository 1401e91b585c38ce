/** The state that a replay has rebuilt at the end of the log: budgets, their balances, and the open holds. */

import type { BalanceFacts } from './evaluate-reservation.ts'
import type { Limits } from './ledger-entries.ts'
import type { Billing, Price } from './tokens.ts'

export interface RebuiltHold {
  readonly nanoUsd: number
  readonly tokens: number
  readonly capped: boolean
  readonly keys: readonly string[]
  /** Undefined when redaction removed a part of the decision. */
  readonly terms: { readonly price: Price | null; readonly billing: Billing } | undefined
}

export interface RebuiltBook {
  readonly budgets: ReadonlyMap<string, { readonly limits: Limits; readonly removed: boolean }>
  /** The keys come from `keyOf`. */
  readonly balances: ReadonlyMap<string, BalanceFacts>
  readonly holds: ReadonlyMap<string, RebuiltHold>
}

export function keyOf({
  budget_id,
  period,
  window_start_ms,
}: Pick<BalanceFacts, 'budget_id' | 'period' | 'window_start_ms'>): string {
  return `${budget_id} ${period} ${window_start_ms}`
}
