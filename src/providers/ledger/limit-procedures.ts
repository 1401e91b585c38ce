/** Sets and removes budgets and quotas in the writer thread: each change and its receipt, in one transaction. */
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import type { ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../../receipts/schema.ts'
import type { BudgetRow, QuotaRow } from '../../store/ledger-tables.ts'
import type { Procedures, Tables } from '../../store/store.ts'
import {
  type BudgetTerms,
  budgetIdOf,
  limitsOfRow,
  missingBudget,
  quotaIdOf,
  type RemoveInput,
  removeBudgetProcedure,
  removeQuotaProcedure,
  type SetBudgetInput,
  type SetQuotaInput,
  setBudgetProcedure,
  setCommandOf,
  setQuotaProcedure,
  unknownLimit,
} from './budgets-and-quotas.ts'

export function limitProcedures(receipts: ReceiptWriter, clock: Clock): Procedures {
  return {
    async [setBudgetProcedure.name](tables: Tables, { terms, operator }: SetBudgetInput) {
      const id = budgetIdOf(terms)
      const before = await tables.budgets.get(id)
      if (before !== undefined) refuseOtherBudget(before, terms)
      const row: BudgetRow = {
        id,
        scopeKind: terms.scope_kind,
        scopeRef: terms.scope_ref,
        period: terms.period,
        limitNanoUsd: terms.limit_nano_usd,
        limitTokens: terms.limit_tokens,
        allowUnpriced: terms.allow_unpriced,
        createdAtMs: before?.createdAtMs ?? clock.nowMs(),
        updatedAtMs: clock.nowMs(),
        removedAtMs: null,
      }
      await tables.budgets.put(row)
      const receipt = await receipts.append(tables, budgetChanged(row, operator, 'set'))
      return { row, replaced: before?.removedAtMs === null, receipt }
    },

    async [removeBudgetProcedure.name](tables: Tables, { id, operator }: RemoveInput) {
      const row = await tables.budgets.get(id)
      if (row === undefined || row.removedAtMs !== null) throw await missingBudget(tables, id)
      await tables.budgets.put({ ...row, removedAtMs: clock.nowMs() })
      return receipts.append(tables, budgetChanged(row, operator, 'remove'))
    },

    async [setQuotaProcedure.name](tables: Tables, { terms, operator }: SetQuotaInput) {
      const id = quotaIdOf(terms)
      const before = await tables.quotas.get(id)
      if (before && (before.scopeKind !== terms.scope_kind || before.scopeRef !== terms.scope_ref))
        throw idTakenError('quota', id, `${before.scopeKind} ${before.scopeRef}`)
      const row: QuotaRow = {
        id,
        scopeKind: terms.scope_kind,
        scopeRef: terms.scope_ref,
        requestsPerMinute: terms.requests_per_minute,
        tokensPerMinute: terms.tokens_per_minute,
        concurrent: terms.concurrent,
        updatedAtMs: clock.nowMs(),
      }
      await tables.quotas.put(row)
      const receipt = await receipts.append(tables, quotaChanged(row, operator, 'set'))
      return { row, replaced: before !== undefined, receipt }
    },

    async [removeQuotaProcedure.name](tables: Tables, { id, operator }: RemoveInput) {
      const row = await tables.quotas.get(id)
      if (row === undefined) throw unknownLimit('quota', id)
      await tables.quotas.remove(id)
      return receipts.append(tables, quotaChanged(row, operator, 'remove'))
    },
  }
}

/** An id always means the same budget. Only a removed budget can get another period. */
function refuseOtherBudget(before: BudgetRow, { scope_kind, scope_ref, period }: BudgetTerms): void {
  if (before.scopeKind !== scope_kind || before.scopeRef !== scope_ref)
    throw before.removedAtMs === null
      ? idTakenError('budget', before.id, whoseOf(before))
      : budgetRemovedError(before)
  if (before.removedAtMs === null && before.period !== period) {
    throw new CraikError('conflict', `${before.id} is per ${before.period}, not per ${period}`, {
      hint: `add a second budget with  --id ${before.id}_${period}  or remove the first:  craik budget remove ${before.id}`,
    })
  }
}

function whoseOf({ scopeKind, scopeRef }: BudgetRow): string {
  return scopeRef === null ? 'everything' : `${scopeKind} ${scopeRef}`
}

/**
 * Refuses to use the id of a removed budget for another scope. Its old receipts are about other calls, and the log
 * could not distinguish them.
 */
function budgetRemovedError(before: BudgetRow): CraikError {
  return new CraikError(
    'conflict',
    `the id ${before.id} is already used: in the log it is the removed budget of ${whoseOf(before)}`,
    { hint: `choose another --id, or restore the budget:  ${setCommandOf(limitsOfRow(before))}` },
  )
}

function idTakenError(what: 'budget' | 'quota', id: string, whose: string): CraikError {
  return new CraikError('conflict', `the id ${id} is already used: it is the ${what} of ${whose}`, {
    hint: 'choose another --id',
  })
}

function budgetChanged(row: BudgetRow, operator: string, operation: 'set' | 'remove'): ReceiptDraft {
  return {
    ...changeReceipt(row.id, operator, operation),
    metadata: {
      scope_kind: row.scopeKind,
      scope_ref: row.scopeRef,
      period: row.period,
      limit_nano_usd: row.limitNanoUsd,
      limit_tokens: row.limitTokens,
      allow_unpriced: row.allowUnpriced,
    },
  }
}

function quotaChanged(row: QuotaRow, operator: string, operation: 'set' | 'remove'): ReceiptDraft {
  return {
    ...changeReceipt(row.id, operator, `${operation}_quota`),
    metadata: {
      scope_kind: row.scopeKind,
      scope_ref: row.scopeRef,
      requests_per_minute: row.requestsPerMinute,
      tokens_per_minute: row.tokensPerMinute,
      concurrent: row.concurrent,
    },
  }
}

function changeReceipt(id: string, operator: string, operation: string): Omit<ReceiptDraft, 'metadata'> {
  return {
    kind: 'budget',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'budget.write',
    operation,
    target: id,
    links: {},
  }
}
