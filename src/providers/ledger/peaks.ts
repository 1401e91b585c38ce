/** Tracks the highest spending of each budget during the replay of a log. */

import type { BalanceFacts } from './evaluate-reservation.ts'
import type { Limits } from './ledger-entries.ts'

export interface BudgetReport {
  readonly id: string
  readonly period: Limits['period']
  readonly limitNanoUsd: number | null
  readonly limitTokens: number | null
  /** The highest spending in one window, with the limit at that moment. */
  readonly peak: Peak
  readonly exceeded: Exceeded | null
}

export interface Peak {
  readonly nanoUsd: number
  readonly ofNanoUsd: number | null
  readonly tokens: number
  readonly ofTokens: number | null
}

/** The largest excess over a limit, its receipt, and its cause. Only an overrun or a lowered limit is a valid cause. */
export interface Exceeded {
  readonly unit: 'nano_usd' | 'tokens'
  readonly by: number
  readonly cause: 'overrun' | 'limit_lowered' | 'unexplained'
  readonly seq: number
}

export class BudgetPeaks {
  readonly id: string
  limits: Limits
  removed = false
  #peak: Peak = { nanoUsd: 0, ofNanoUsd: null, tokens: 0, ofTokens: null }
  #exceeded: Exceeded | null = null
  /**
   * Windows with a call that cost more than its hold. A call can still be settled in its window after the next window
   * has begun.
   */
  readonly #overranIn = new Set<number>()
  #lowered = false

  constructor(id: string, limits: Limits) {
    this.id = id
    this.limits = limits
    this.#peak = { ...this.#peak, ofNanoUsd: limits.limit_nano_usd, ofTokens: limits.limit_tokens }
  }

  set(limits: Limits): void {
    this.#lowered ||=
      isLower(limits.limit_nano_usd, this.limits.limit_nano_usd) ||
      isLower(limits.limit_tokens, this.limits.limit_tokens)
    this.limits = limits
    this.removed = false
  }

  /** Returns `false` when a limit was exceeded and no receipt explains it. */
  recordSpending(balance: BalanceFacts, seq: number, overrun: boolean): boolean {
    if (overrun) this.#overranIn.add(balance.window_start_ms)
    const overran = this.#overranIn.has(balance.window_start_ms)
    const { limit_nano_usd, limit_tokens } = this.limits
    const { spent_nano_usd, spent_tokens } = balance
    if (spent_nano_usd > this.#peak.nanoUsd)
      this.#peak = { ...this.#peak, nanoUsd: spent_nano_usd, ofNanoUsd: limit_nano_usd }
    if (spent_tokens > this.#peak.tokens)
      this.#peak = { ...this.#peak, tokens: spent_tokens, ofTokens: limit_tokens }
    const dollars = this.#over('nano_usd', spent_nano_usd, limit_nano_usd, seq, overran)
    const tokens = this.#over('tokens', spent_tokens, limit_tokens, seq, overran)
    return dollars && tokens
  }

  report(): BudgetReport {
    return {
      id: this.id,
      period: this.limits.period,
      limitNanoUsd: this.limits.limit_nano_usd,
      limitTokens: this.limits.limit_tokens,
      peak: this.#peak,
      exceeded: this.#exceeded,
    }
  }

  #over(unit: Exceeded['unit'], spent: number, limit: number | null, seq: number, overran: boolean): boolean {
    const by = limit === null ? 0 : spent - limit
    if (by <= 0 || (this.#exceeded?.unit === unit && by <= this.#exceeded.by)) return true
    const cause = overran ? 'overrun' : this.#lowered ? 'limit_lowered' : 'unexplained'
    this.#exceeded = { unit, by, cause, seq }
    return cause !== 'unexplained'
  }
}

function isLower(limit: number | null, before: number | null): boolean {
  return limit !== null && (before === null || limit < before)
}
