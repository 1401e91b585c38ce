/** The tables of the ledger. Balances change only by statements that check the limit themselves. */
import type { DatabaseSync } from 'node:sqlite'
import type {
  Balance,
  BalanceKey,
  BudgetRow,
  BudgetTable,
  HoldRow,
  HoldTable,
  QuotaRow,
  QuotaScope,
  QuotaTable,
  QuotaUse,
  QuotaUseTable,
} from '../ledger-tables.ts'
import { lazyStatement } from './statement.ts'

type Row = Record<string, unknown>

const NOTHING: Balance = { spentNanoUsd: 0, heldNanoUsd: 0, spentTokens: 0, heldTokens: 0 }

/** Numbers above this are not exact, so sums stop here. */
const MOST = Number.MAX_SAFE_INTEGER

export function budgetTable(database: DatabaseSync): BudgetTable {
  const columns = `id, scope_kind AS scopeKind, scope_ref AS scopeRef, period, limit_nano_usd AS limitNanoUsd,
    limit_tokens AS limitTokens, allow_unpriced AS allowUnpriced, created_at_ms AS createdAtMs,
    updated_at_ms AS updatedAtMs, removed_at_ms AS removedAtMs`
  const put = lazyStatement(
    database,
    `INSERT OR REPLACE INTO budgets (id, scope_kind, scope_ref, period, limit_nano_usd, limit_tokens,
       allow_unpriced, created_at_ms, updated_at_ms, removed_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = lazyStatement(database, `SELECT ${columns} FROM budgets WHERE id = ?`)
  const list = lazyStatement(database, `SELECT ${columns} FROM budgets ORDER BY id`)
  const applying = lazyStatement(
    database,
    `SELECT ${columns} FROM budgets WHERE removed_at_ms IS NULL AND (scope_kind = 'total'
       OR (scope_kind = 'provider' AND scope_ref = ?) OR (scope_kind = 'session' AND scope_ref = ?)
       OR (scope_kind = 'sandbox' AND scope_ref = ?) OR (scope_kind = 'operator' AND scope_ref = ?))
     ORDER BY id`,
  )
  const amounts = `spent_nano_usd AS spentNanoUsd, held_nano_usd AS heldNanoUsd, spent_tokens AS spentTokens,
    held_tokens AS heldTokens`
  const where = 'budget_id = ? AND period = ? AND window_start_ms = ?'
  const balance = lazyStatement(database, `SELECT ${amounts} FROM budget_balances WHERE ${where}`)
  const balances = lazyStatement(
    database,
    `SELECT budget_id AS budgetId, period, window_start_ms AS windowStartMs, ${amounts} FROM budget_balances`,
  )
  const open = lazyStatement(
    database,
    `INSERT OR IGNORE INTO budget_balances (budget_id, period, window_start_ms, spent_nano_usd, held_nano_usd,
       spent_tokens, held_tokens) VALUES (?, ?, ?, 0, 0, 0, 0)`,
  )
  const hold = lazyStatement(
    database,
    `UPDATE budget_balances SET held_nano_usd = held_nano_usd + ?4, held_tokens = held_tokens + ?5
     WHERE budget_id = ?1 AND period = ?2 AND window_start_ms = ?3 AND EXISTS (
       SELECT 1 FROM budgets WHERE id = ?1 AND removed_at_ms IS NULL
         AND (limit_nano_usd IS NULL OR ?4 = 0 OR spent_nano_usd + held_nano_usd + ?4 <= limit_nano_usd)
         AND (limit_tokens IS NULL OR ?5 = 0 OR spent_tokens + held_tokens + ?5 <= limit_tokens))
       AND held_nano_usd + ?4 <= ${MOST} AND held_tokens + ?5 <= ${MOST}`,
  )
  const settle = lazyStatement(
    database,
    `UPDATE budget_balances SET held_nano_usd = held_nano_usd - ?4, held_tokens = held_tokens - ?5,
       spent_nano_usd = min(spent_nano_usd + ?6, ${MOST}), spent_tokens = min(spent_tokens + ?7, ${MOST})
     WHERE budget_id = ?1 AND period = ?2 AND window_start_ms = ?3 RETURNING ${amounts}`,
  )
  const key = ({ budgetId, period, windowStartMs }: BalanceKey) => [budgetId, period, windowStartMs] as const
  const parse = (row: Row) => ({ ...row, allowUnpriced: row.allowUnpriced === 1 }) as unknown as BudgetRow
  return {
    async put(row) {
      put().run(
        row.id,
        row.scopeKind,
        row.scopeRef,
        row.period,
        row.limitNanoUsd,
        row.limitTokens,
        row.allowUnpriced ? 1 : 0,
        row.createdAtMs,
        row.updatedAtMs,
        row.removedAtMs,
      )
    },
    async get(id) {
      const row = get().get(id)
      return row && parse(row)
    },
    list: async () => list().all().map(parse),
    applying: async ({ provider, session, sandbox, operator }) =>
      applying()
        .all(provider ?? null, session ?? null, sandbox ?? null, operator ?? null)
        .map(parse),
    balance: async (at) => (balance().get(...key(at)) as Balance | undefined) ?? NOTHING,
    balances: async () => balances().all() as unknown as (BalanceKey & Balance)[],
    async hold(at, { nanoUsd, tokens }) {
      const holds = () => hold().run(...key(at), nanoUsd, tokens).changes === 1
      // Only the first call of a window has to create its row.
      return holds() || (open().run(...key(at)).changes === 1 && holds())
    },
    async settle(at, held, spent) {
      const now = settle().get(...key(at), held.nanoUsd, held.tokens, spent.nanoUsd, spent.tokens)
      return (now as Balance | undefined) ?? NOTHING
    },
  }
}

export function holdTable(database: DatabaseSync): HoldTable {
  const columns = `id, provider_id AS providerId, session_id AS sessionId, boot_id AS bootId, pid,
    started_at AS startedAt, pid_namespace AS pidNamespace, created_at_ms AS createdAtMs, document`
  const insert = lazyStatement(
    database,
    `INSERT INTO holds (id, provider_id, session_id, boot_id, pid, started_at, pid_namespace, created_at_ms, document)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = lazyStatement(database, `SELECT ${columns} FROM holds WHERE id = ?`)
  const take = lazyStatement(database, 'DELETE FROM holds WHERE id = ? RETURNING id, document')
  const madeUntil = lazyStatement(
    database,
    `SELECT ${columns} FROM holds WHERE created_at_ms <= ? ORDER BY id`,
  )
  const owners = {
    provider: lazyStatement(database, `SELECT ${columns} FROM holds WHERE provider_id = ?`),
    session: lazyStatement(database, `SELECT ${columns} FROM holds WHERE session_id = ?`),
  }
  const ownersIn = lazyStatement(
    database,
    `SELECT ${columns} FROM holds WHERE EXISTS (SELECT 1 FROM json_each(document, '$.parts') AS part
       WHERE part.value ->> 'budgetId' = ? AND part.value ->> 'period' = ? AND part.value ->> 'windowStartMs' = ?)`,
  )
  const parse = ({ bootId, pid, startedAt, pidNamespace, ...row }: Row) =>
    ({ ...row, owner: { bootId, pid, startedAt, pidNamespace } }) as unknown as HoldRow
  return {
    async insert({ id, providerId, sessionId, owner, createdAtMs, document }) {
      const { bootId, pid, startedAt, pidNamespace } = owner
      insert().run(id, providerId, sessionId, bootId, pid, startedAt, pidNamespace, createdAtMs, document)
    },
    async get(id) {
      const row = get().get(id)
      return row && parse(row)
    },
    take: async (id) => take().get(id) as Pick<HoldRow, 'id' | 'document'> | undefined,
    listCreatedUntil: async (ms) => madeUntil().all(ms).map(parse),
    ownersIn: async ({ budgetId, period, windowStartMs }) =>
      ownersIn()
        .all(budgetId, period, windowStartMs)
        .map((row) => parse(row).owner),
    owners: async (scope, ref) =>
      owners[scope]()
        .all(ref)
        .map((row) => parse(row).owner),
  }
}

export function quotaTable(database: DatabaseSync): QuotaTable {
  const columns = `id, scope_kind AS scopeKind, scope_ref AS scopeRef, requests_per_minute AS requestsPerMinute,
    tokens_per_minute AS tokensPerMinute, concurrent, updated_at_ms AS updatedAtMs`
  const put = lazyStatement(
    database,
    `INSERT OR REPLACE INTO quotas (id, scope_kind, scope_ref, requests_per_minute, tokens_per_minute, concurrent,
       updated_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = lazyStatement(database, `SELECT ${columns} FROM quotas WHERE id = ?`)
  const list = lazyStatement(database, `SELECT ${columns} FROM quotas ORDER BY id`)
  const remove = lazyStatement(database, 'DELETE FROM quotas WHERE id = ?')
  const applying = lazyStatement(
    database,
    `SELECT ${columns} FROM quotas WHERE (scope_kind = 'provider' AND scope_ref = ?)
       OR (scope_kind = 'session' AND scope_ref = ?) ORDER BY id`,
  )
  return {
    async put(row) {
      put().run(
        row.id,
        row.scopeKind,
        row.scopeRef,
        row.requestsPerMinute,
        row.tokensPerMinute,
        row.concurrent,
        row.updatedAtMs,
      )
    },
    get: async (id) => get().get(id) as QuotaRow | undefined,
    list: async () => list().all() as unknown as QuotaRow[],
    remove: async (id) => remove().run(id).changes === 1,
    applying: async (providerId, sessionId) =>
      applying().all(providerId, sessionId ?? null) as unknown as QuotaRow[],
  }
}

export function quotaUseTable(database: DatabaseSync): QuotaUseTable {
  const add = lazyStatement(
    database,
    'INSERT INTO quota_uses (hold_id, provider_id, session_id, at_ms, tokens) VALUES (?, ?, ?, ?, ?)',
  )
  const forget = lazyStatement(database, 'DELETE FROM quota_uses WHERE at_ms <= ?')
  const correct = lazyStatement(database, 'UPDATE quota_uses SET tokens = ? WHERE hold_id = ?')
  const each = (select: string): Record<QuotaScope, ReturnType<typeof lazyStatement>> => ({
    provider: lazyStatement(database, `${select} FROM quota_uses WHERE provider_id = ? AND at_ms > ?`),
    session: lazyStatement(database, `${select} FROM quota_uses WHERE session_id = ? AND at_ms > ?`),
  })
  const count = each(`SELECT count(*) AS requests, min(coalesce(sum(tokens), 0), ${MOST}) AS tokens`)
  const list = each('SELECT at_ms AS atMs, tokens')
  return {
    async add(use, forgetUntilMs) {
      forget().run(forgetUntilMs)
      add().run(use.holdId, use.providerId, use.sessionId, use.atMs, use.tokens)
    },
    async correct(holdId, tokens) {
      correct().run(tokens, holdId)
    },
    count: async (scope, ref, afterMs) => count[scope]().get(ref, afterMs) as never,
    list: async (scope, ref, afterMs) =>
      (list[scope]().all(ref, afterMs) as unknown as Pick<QuotaUse, 'atMs' | 'tokens'>[]).sort(
        (a, b) => a.atMs - b.atMs,
      ),
  }
}
