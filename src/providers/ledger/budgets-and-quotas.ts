/** Sets, removes and lists budgets and quotas. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import type { BudgetId } from '../../lib/ids.ts'
import { parseInput, reference, refuseSecrets } from '../../policy/decision-request.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import {
  BUDGET_SCOPES,
  type BudgetRow,
  PERIODS,
  QUOTA_SCOPES,
  type QuotaRow,
} from '../../store/ledger-tables.ts'
import { procedure, type Store, type Tables } from '../../store/store.ts'
import type { BudgetFacts, QuotaFacts } from './evaluate-reservation.ts'
import type { Limits } from './ledger-entries.ts'
import { budgetFacts, quotaFacts } from './ledger-facts.ts'
import { formatUsdFlag } from './money.ts'

const amount = z.int().nonnegative().nullable()

const budgetTerms = z
  .strictObject({
    id: reference.optional(),
    scope_kind: z.enum(BUDGET_SCOPES),
    scope_ref: reference.nullable(),
    period: z.enum(PERIODS),
    limit_nano_usd: amount,
    limit_tokens: amount,
    allow_unpriced: z.boolean(),
  })
  .refine((terms) => (terms.scope_kind === 'total') === (terms.scope_ref === null), {
    message: 'a budget needs a scope, unless it is the total',
  })
  .refine((terms) => terms.limit_nano_usd !== null || terms.limit_tokens !== null, {
    message: 'a budget limits dollars, tokens or both',
  })

const quotaTerms = z
  .strictObject({
    id: reference.optional(),
    scope_kind: z.enum(QUOTA_SCOPES),
    scope_ref: reference,
    requests_per_minute: amount,
    tokens_per_minute: amount,
    concurrent: amount,
  })
  .refine(
    (terms) => [terms.requests_per_minute, terms.tokens_per_minute, terms.concurrent].some((n) => n !== null),
    { message: 'a quota limits requests per minute, tokens per minute or concurrent requests' },
  )

export type BudgetTerms = z.infer<typeof budgetTerms>
export type QuotaTerms = z.infer<typeof quotaTerms>

interface Written<Row> {
  readonly row: Row
  readonly replaced: boolean
  readonly receipt: ReceiptRef
}

interface Removal {
  readonly id: string
  readonly operator: string
}

export const setBudgetProcedure = procedure<
  { readonly terms: BudgetTerms; readonly operator: string },
  Written<BudgetRow>
>('budget.set')
export const removeBudgetProcedure = procedure<Removal, ReceiptRef>('budget.remove')
export const setQuotaProcedure = procedure<
  { readonly terms: QuotaTerms; readonly operator: string },
  Written<QuotaRow>
>('quota.set')
export const removeQuotaProcedure = procedure<Removal, ReceiptRef>('quota.remove')

export type SetBudgetInput = { readonly terms: BudgetTerms; readonly operator: string }
export type SetQuotaInput = { readonly terms: QuotaTerms; readonly operator: string }
export type RemoveInput = Removal

/** An existing id gets the new limits, and its past spending stays. */
export function setBudget(store: Store, input: unknown, operator: string): Promise<Written<BudgetRow>> {
  const terms = parseInput(budgetTerms, input, 'the budget')
  refuseSecrets(terms, 'the budget')
  return store.write(setBudgetProcedure, { terms, operator })
}

export function setQuota(store: Store, input: unknown, operator: string): Promise<Written<QuotaRow>> {
  const terms = parseInput(quotaTerms, input, 'the quota')
  refuseSecrets(terms, 'the quota')
  return store.write(setQuotaProcedure, { terms, operator })
}

/** Returns the present balance of every active budget. */
export function listBudgets(store: Store, nowMs: number): Promise<readonly BudgetFacts[]> {
  return store.read(async (tables) => {
    const rows = (await tables.budgets.list()).filter(({ removedAtMs }) => removedAtMs === null)
    return Promise.all(rows.map((row) => budgetFacts(tables, row, nowMs)))
  })
}

export function listQuotas(store: Store, nowMs: number): Promise<readonly QuotaFacts[]> {
  return store.read(async (tables) =>
    Promise.all((await tables.quotas.list()).map((row) => quotaFacts(tables, row, nowMs))),
  )
}

/** A provider's budget has the id that its record names, such as `budget_provider_openai`. */
export function budgetIdOf({ id, scope_kind, scope_ref }: BudgetTerms): BudgetId {
  if (id !== undefined) return id as BudgetId
  return limitId('budget', scope_kind, scope_ref) as BudgetId
}

export function quotaIdOf({ id, scope_kind, scope_ref }: QuotaTerms): string {
  return id ?? limitId('quota', scope_kind, scope_ref)
}

function limitId(what: string, kind: string, ref: string | null): string {
  if (ref === null) return `${what}_${kind}`
  return kind === 'provider' ? `${what}_${ref}` : `${what}_${kind}_${ref}`
}

/** Returns the one-line command that sets a budget to exactly these terms. */
export function setCommandOf(terms: Limits & { readonly id: string }): string {
  const { id, scope_kind, scope_ref, limit_nano_usd, limit_tokens, period, allow_unpriced } = terms
  const words = [
    `craik budget set --id ${id} --${scope_kind}`,
    scope_ref,
    limit_nano_usd !== null && `--limit ${formatUsdFlag(limit_nano_usd)}`,
    limit_tokens !== null && `--tokens ${limit_tokens}`,
    `--per ${period}`,
    allow_unpriced && '--allow-unpriced',
  ]
  return words.filter((word) => typeof word === 'string').join(' ')
}

/** Returns the error for a removed budget: its id is known and used, but it limits nothing. */
export async function missingBudget(tables: Pick<Tables, 'budgets'>, id: string): Promise<CraikError> {
  const row = await tables.budgets.get(id)
  if (row === undefined || row.removedAtMs === null) return unknownLimit('budget', id)
  return new CraikError('not_found', `${id} was removed`, {
    hint: `set it again:  ${setCommandOf(limitsOfRow(row))}`,
  })
}

export function limitsOfRow(row: BudgetRow): Limits & { readonly id: string } {
  return {
    id: row.id,
    scope_kind: row.scopeKind,
    scope_ref: row.scopeRef,
    period: row.period,
    limit_nano_usd: row.limitNanoUsd,
    limit_tokens: row.limitTokens,
    allow_unpriced: row.allowUnpriced,
  }
}

export function unknownLimit(what: 'budget' | 'quota', id: string): CraikError {
  return new CraikError('not_found', `unknown ${what}: ${id}`, { hint: `list ${what}s:  craik ${what} show` })
}
