/** What a replay has rebuilt when the log ends: budgets, their balances, and the holds that are open. */

import type { BalanceFacts } from './evaluate-reservation.ts'
import type { Limits } from './ledger-entries.ts'
import type { Billing, Price } from './tokens.ts'

export interface RebuiltHold {
  readonly nanoUsd: number
  readonly tokens: number
  readonly capped: boolean
  readonly keys: readonly string[]
  /** Undefined where redaction took something out of the decision. */
  readonly terms: { readonly price: Price | null; readonly billing: Billing } | undefined
}

export interface RebuiltBook {
  readonly budgets: ReadonlyMap<string, { readonly limits: Limits; readonly removed: boolean }>
  /** By `keyOf`. */
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
