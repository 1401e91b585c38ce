/** Reads the facts for the decision about a reservation, in the transaction of its admission. */
import type { BudgetId } from '../../lib/ids.ts'
import { type Owner, ownerState } from '../../lib/owner.ts'
import type { BalanceKey, BudgetRow, QuotaRow } from '../../store/ledger-tables.ts'
import type { Tables } from '../../store/store.ts'
import {
  type BudgetFacts,
  findExhaustedQuota,
  leastAmount,
  priceFacts,
  type QuotaFacts,
  type ReservationFacts,
} from './evaluate-reservation.ts'
import { balanceFactsOf } from './hold.ts'
import type { AdmitInput } from './tokens.ts'
import { windowStart } from './windows.ts'

export const QUOTA_WINDOW_MS = 60_000

export function callFacts({ request, call }: AdmitInput): ReservationFacts {
  return {
    provider_id: call.providerId,
    model: call.model,
    operator: request.operator,
    session_id: request.scope.session_id ?? null,
    sandbox_id: call.sandboxId ?? null,
    billing: call.billing,
    price: priceFacts(call.price),
    input_bytes: call.inputBytes,
    max_output_tokens: call.maxOutputTokens,
    cap_can_be_set: call.capCanBeSet,
  }
}

export async function budgetsFor(
  tables: Tables,
  call: ReservationFacts,
  nowMs: number,
): Promise<BudgetFacts[]> {
  const rows = await tables.budgets.applying({
    provider: call.provider_id,
    session: call.session_id ?? undefined,
    sandbox: call.sandbox_id ?? undefined,
    operator: call.operator,
  })
  return Promise.all(rows.map((row) => budgetFacts(tables, row, nowMs)))
}

export async function budgetFacts(tables: Tables, row: BudgetRow, nowMs: number): Promise<BudgetFacts> {
  const key = currentKey(row, nowMs)
  return {
    ...balanceFactsOf(key, await tables.budgets.balance(key)),
    scope_kind: row.scopeKind,
    scope_ref: row.scopeRef,
    limit_nano_usd: row.limitNanoUsd,
    limit_tokens: row.limitTokens,
    allow_unpriced: row.allowUnpriced,
  }
}

function currentKey({ id, period }: BudgetRow, nowMs: number): BalanceKey {
  return { budgetId: id, period, windowStartMs: windowStart(period, nowMs) }
}

export async function quotasFor(
  tables: Tables,
  call: ReservationFacts,
  nowMs: number,
): Promise<QuotaFacts[]> {
  const rows = await tables.quotas.applying(call.provider_id, call.session_id ?? undefined)
  return Promise.all(rows.map((row) => quotaFacts(tables, row, nowMs)))
}

/** Returns whether a request quota is exhausted at the moment, for any call. */
export async function hasExhaustedQuota(
  tables: Tables,
  providerId: string,
  sessionId: string | undefined,
  nowMs: number,
): Promise<boolean> {
  const rows = await tables.quotas.applying(providerId, sessionId)
  if (rows.length === 0) return false
  return (
    findExhaustedQuota(await Promise.all(rows.map((row) => quotaFacts(tables, row, nowMs)))) !== undefined
  )
}

export async function quotaFacts(tables: Tables, row: QuotaRow, nowMs: number): Promise<QuotaFacts> {
  const { scopeKind, scopeRef } = row
  const { requests, tokens } = await tables.quotaUses.count(scopeKind, scopeRef, nowMs - QUOTA_WINDOW_MS)
  // Checking every owner is worth its cost only when the quota limits concurrent calls.
  const owners = row.concurrent === null ? [] : await tables.holds.owners(scopeKind, scopeRef)
  return {
    id: row.id,
    scope_kind: scopeKind,
    scope_ref: scopeRef,
    requests_per_minute: row.requestsPerMinute,
    tokens_per_minute: row.tokensPerMinute,
    concurrent: row.concurrent,
    requests,
    tokens,
    running: countLiveOwners(owners),
  }
}

/** Returns the number of calls with a hold in a budget's window, and how many of them still run. */
export async function countHoldingCalls(
  tables: Tables,
  { budget_id, period, window_start_ms }: BudgetFacts,
): Promise<{ readonly calls: number; readonly underWay: number }> {
  const key = { budgetId: budget_id as BudgetId, period, windowStartMs: window_start_ms }
  const owners = await tables.holds.ownersIn(key)
  return { calls: owners.length, underWay: countLiveOwners(owners) }
}

/** A dead owner frees its slot at once, although its hold stays. */
function countLiveOwners(owners: readonly Owner[]): number {
  const states = new Map<string, boolean>()
  return owners.filter((owner) => {
    const name = JSON.stringify(owner)
    if (!states.has(name)) states.set(name, ownerState(owner) !== 'dead')
    return states.get(name)
  }).length
}

/** Returns when the sliding minute has capacity again. `undefined` when that does not depend on time alone. */
export async function quotaRetryAt(
  tables: Tables,
  rule: string,
  quota: QuotaFacts,
  call: ReservationFacts,
  nowMs: number,
): Promise<number | undefined> {
  const { scope_kind, scope_ref, requests_per_minute, tokens_per_minute, requests } = quota
  if (rule === 'quota.concurrent' || requests_per_minute === 0) return undefined
  const uses = await tables.quotaUses.list(scope_kind, scope_ref, nowMs - QUOTA_WINDOW_MS)
  if (rule === 'quota.requests_per_minute')
    return uses[requests - requests_per_minute!]!.atMs + QUOTA_WINDOW_MS
  let missing = quota.tokens + leastAmount(call).tokens - tokens_per_minute!
  for (const { atMs, tokens } of uses) {
    missing -= tokens
    if (missing <= 0) return atMs + QUOTA_WINDOW_MS
  }
  return undefined
}
