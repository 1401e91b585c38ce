/** What the ledger keeps: budgets with a balance per window, holds of calls in flight, quotas and the last minute. */
import type { BudgetId, HoldId } from '../lib/ids.ts'
import type { Owner } from '../lib/owner.ts'

export const BUDGET_SCOPES = ['provider', 'session', 'sandbox', 'operator', 'total'] as const
type BudgetScope = (typeof BUDGET_SCOPES)[number]

export const PERIODS = ['day', 'week', 'month', 'life'] as const
export type Period = (typeof PERIODS)[number]

export const QUOTA_SCOPES = ['provider', 'session'] as const
export type QuotaScope = (typeof QUOTA_SCOPES)[number]

export interface BudgetRow {
  readonly id: BudgetId
  readonly scopeKind: BudgetScope
  /** Null for the total, which has nothing to name. */
  readonly scopeRef: string | null
  readonly period: Period
  readonly limitNanoUsd: number | null
  readonly limitTokens: number | null
  /** Lets calls through whose price is not known, although dollars are limited. */
  readonly allowUnpriced: boolean
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** A removed budget limits nothing. Its id stays taken, and what was spent under it stays known. */
  readonly removedAtMs: number | null
}

export interface Amount {
  readonly nanoUsd: number
  readonly tokens: number
}

export interface Balance {
  readonly spentNanoUsd: number
  readonly heldNanoUsd: number
  readonly spentTokens: number
  readonly heldTokens: number
}

/** One window of one budget. */
export interface BalanceKey {
  readonly budgetId: BudgetId
  readonly period: Period
  readonly windowStartMs: number
}

/** Whose budgets apply to a call. */
type BudgetScopes = Readonly<Record<Exclude<BudgetScope, 'total'>, string | undefined>>

export interface BudgetTable {
  /** New, or with other limits. */
  put(row: BudgetRow): Promise<void>
  get(id: string): Promise<BudgetRow | undefined>
  /** By id, removed ones included. */
  list(): Promise<readonly BudgetRow[]>
  /** Those in force that apply, by id. */
  applying(scopes: BudgetScopes): Promise<readonly BudgetRow[]>
  balance(key: BalanceKey): Promise<Balance>
  /** Every window in which something was held. */
  balances(): Promise<readonly (BalanceKey & Balance)[]>
  /** False when a limit of the budget would be passed. What costs nothing in a unit always fits in it. */
  hold(key: BalanceKey, amount: Amount): Promise<boolean>
  /** Takes a hold away and books what was spent instead. Says how the window stands then. */
  settle(key: BalanceKey, held: Amount, spent: Amount): Promise<Balance>
}

export interface HoldRow {
  readonly id: HoldId
  readonly providerId: string
  readonly sessionId: string | null
  readonly owner: Owner
  readonly createdAtMs: number
  /** What is needed to settle it, as canonical JSON. */
  readonly document: string
}

export interface HoldTable {
  insert(row: HoldRow): Promise<void>
  get(id: string): Promise<HoldRow | undefined>
  /** Removes it, and gives what is needed to settle it. Undefined when it was settled or swept before. */
  take(id: string): Promise<Pick<HoldRow, 'id' | 'document'> | undefined>
  madeUntil(ms: number): Promise<readonly HoldRow[]>
  /** Whose calls are in flight. */
  owners(scope: QuotaScope, ref: string): Promise<readonly Owner[]>
  /** Whose calls hold something in this window. */
  ownersIn(key: BalanceKey): Promise<readonly Owner[]>
}

export interface QuotaRow {
  readonly id: string
  readonly scopeKind: QuotaScope
  readonly scopeRef: string
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
  readonly concurrent: number | null
  readonly updatedAtMs: number
}

/** A call that was let through, as the sliding window counts it. */
export interface QuotaUse {
  readonly holdId: HoldId
  readonly providerId: string
  readonly sessionId: string | null
  readonly atMs: number
  readonly tokens: number
}

export interface QuotaTable {
  put(row: QuotaRow): Promise<void>
  get(id: string): Promise<QuotaRow | undefined>
  list(): Promise<readonly QuotaRow[]>
  remove(id: string): Promise<boolean>
  applying(providerId: string, sessionId: string | undefined): Promise<readonly QuotaRow[]>
}

export interface QuotaUseTable {
  /** Adds one and forgets those made until `forgetUntilMs`. */
  add(use: QuotaUse, forgetUntilMs: number): Promise<void>
  /** Once it is known what a call used. */
  correct(holdId: string, tokens: number): Promise<void>
  /** Those made after `afterMs`. */
  count(scope: QuotaScope, ref: string, afterMs: number): Promise<{ requests: number; tokens: number }>
  /** Oldest first, those made after `afterMs`. */
  list(scope: QuotaScope, ref: string, afterMs: number): Promise<readonly Pick<QuotaUse, 'atMs' | 'tokens'>[]>
}
