/**
 * The tables of the ledger: budgets with a balance for each window, holds of calls in progress, quotas and the calls of
 * the last minute.
 */
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
  /** Null for the total, which has no reference. */
  readonly scopeRef: string | null
  readonly period: Period
  readonly limitNanoUsd: number | null
  readonly limitTokens: number | null
  /** Allows calls with an unknown price, although dollars are limited. */
  readonly allowUnpriced: boolean
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** A removed budget limits nothing. Its id stays in use, and its past spending stays recorded. */
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

/** The references whose budgets apply to a call. */
type BudgetScopes = Readonly<Record<Exclude<BudgetScope, 'total'>, string | undefined>>

export interface BudgetTable {
  /** Creates the budget or changes its limits. */
  put(row: BudgetRow): Promise<void>
  get(id: string): Promise<BudgetRow | undefined>
  /** In the order of their ids, including removed ones. */
  list(): Promise<readonly BudgetRow[]>
  /** Returns the budgets that apply and were not removed, in the order of their ids. */
  applying(scopes: BudgetScopes): Promise<readonly BudgetRow[]>
  balance(key: BalanceKey): Promise<Balance>
  /** Returns every window in which there was a hold. */
  balances(): Promise<readonly (BalanceKey & Balance)[]>
  /** Returns false when the hold would exceed a limit of the budget. An amount of zero in a unit always fits. */
  hold(key: BalanceKey, amount: Amount): Promise<boolean>
  /** Replaces a hold with the real cost. Returns the new balance of the window. */
  settle(key: BalanceKey, held: Amount, spent: Amount): Promise<Balance>
}

export interface HoldRow {
  readonly id: HoldId
  readonly providerId: string
  readonly sessionId: string | null
  readonly owner: Owner
  readonly createdAtMs: number
  /** The data for settling the hold, as canonical JSON. */
  readonly document: string
}

export interface HoldTable {
  insert(row: HoldRow): Promise<void>
  get(id: string): Promise<HoldRow | undefined>
  /** Removes the hold and returns the data for settling it. Returns undefined when it was already settled or swept. */
  take(id: string): Promise<Pick<HoldRow, 'id' | 'document'> | undefined>
  listCreatedUntil(ms: number): Promise<readonly HoldRow[]>
  /** Returns the owners of the calls in progress. */
  owners(scope: QuotaScope, ref: string): Promise<readonly Owner[]>
  /** Returns the owners of the calls with a hold in this window. */
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

/** A call that was allowed, as the sliding window counts it. */
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
  /** Adds a call and removes those made until `forgetUntilMs`. */
  add(use: QuotaUse, forgetUntilMs: number): Promise<void>
  /** Corrects the tokens when the call's real usage is known. */
  correct(holdId: string, tokens: number): Promise<void>
  /** Counts the calls made after `afterMs`. */
  count(scope: QuotaScope, ref: string, afterMs: number): Promise<{ requests: number; tokens: number }>
  /** Returns the calls made after `afterMs`, oldest first. */
  list(scope: QuotaScope, ref: string, afterMs: number): Promise<readonly Pick<QuotaUse, 'atMs' | 'tokens'>[]>
}
