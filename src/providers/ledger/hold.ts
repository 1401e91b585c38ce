/** A hold: the maximum cost of a call, reserved in every budget that applies until the actual cost is known. */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { BudgetId } from '../../lib/ids.ts'
import type { ReceiptDraft, ReceiptLinks } from '../../receipts/schema.ts'
import type { Amount, Balance, BalanceKey, HoldRow } from '../../store/ledger-tables.ts'
import { PERIODS } from '../../store/ledger-tables.ts'
import type { Tables } from '../../store/store.ts'
import type { BalanceFacts } from './evaluate-reservation.ts'

const count = z.int().nonnegative()

const holdDocument = z.strictObject({
  operator: z.string(),
  links: z.record(z.string(), z.unknown()),
  billing: z.enum(['metered', 'subscription', 'free']),
  price: z
    .strictObject({
      inputNanoUsdPerMtok: count,
      cacheReadNanoUsdPerMtok: count,
      cacheWriteNanoUsdPerMtok: count,
      outputNanoUsdPerMtok: count,
    })
    .nullable(),
  /** `false` when the call has no output limit, so that its tokens can exceed the hold. */
  capped: z.boolean(),
  nanoUsd: count,
  tokens: count,
  parts: z.array(z.strictObject({ budgetId: z.string(), period: z.enum(PERIODS), windowStartMs: z.int() })),
})

export interface Hold extends Omit<z.infer<typeof holdDocument>, 'links' | 'parts'> {
  readonly links: ReceiptLinks
  readonly parts: readonly BalanceKey[]
}

export function formatHold(hold: Hold): string {
  return canonicalJson(hold as unknown as Json)
}

export function parseHold({ id, document }: Pick<HoldRow, 'id' | 'document'>): Hold {
  const parsed = holdDocument.safeParse(JSON.parse(document))
  if (!parsed.success) throw new CraikError('store_damaged', `cannot read hold ${id}`)
  const { parts, links } = parsed.data
  return {
    ...parsed.data,
    links: links as ReceiptLinks,
    parts: parts.map((part) => ({ ...part, budgetId: part.budgetId as BudgetId })),
  }
}

/** Books `spent` in place of the hold, and returns the resulting balances. */
export async function settleHold(
  tables: Tables,
  { parts, nanoUsd, tokens }: Hold,
  spent: Amount,
): Promise<BalanceFacts[]> {
  const balances: BalanceFacts[] = []
  for (const key of parts) {
    balances.push(balanceFactsOf(key, await tables.budgets.settle(key, { nanoUsd, tokens }, spent)))
  }
  return balances
}

export function balanceFactsOf(
  { budgetId, period, windowStartMs }: BalanceKey,
  { spentNanoUsd, heldNanoUsd, spentTokens, heldTokens }: Balance,
): BalanceFacts {
  return {
    budget_id: budgetId,
    period,
    window_start_ms: windowStartMs,
    spent_nano_usd: spentNanoUsd,
    held_nano_usd: heldNanoUsd,
    spent_tokens: spentTokens,
    held_tokens: heldTokens,
  }
}

/** Returns the fields that all ledger entries share in a `budget` receipt. */
export function ledgerEntry(
  operator: string,
  links: ReceiptLinks,
  operation: 'reserve' | 'settle' | 'release' | 'indeterminate',
): Pick<ReceiptDraft, 'kind' | 'phase' | 'operator' | 'capability' | 'operation' | 'links' | 'target'> {
  return {
    kind: 'budget',
    phase: 'point',
    operator,
    capability: operation === 'reserve' ? 'budget.reserve' : 'budget.settle',
    operation,
    ...(links.provider_id !== undefined && { target: links.provider_id }),
    links,
  }
}
