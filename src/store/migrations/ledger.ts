/** Budgets, their balances, holds and quotas. */
export const ledger = `
  CREATE TABLE budgets (
    id TEXT PRIMARY KEY,
    scope_kind TEXT NOT NULL,
    scope_ref TEXT,
    period TEXT NOT NULL,
    limit_nano_usd INTEGER CHECK (limit_nano_usd >= 0),
    limit_tokens INTEGER CHECK (limit_tokens >= 0),
    allow_unpriced INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    removed_at_ms INTEGER
  ) STRICT;
  CREATE INDEX budgets_scope ON budgets (scope_kind, scope_ref);
  CREATE TABLE budget_balances (
    budget_id TEXT NOT NULL,
    period TEXT NOT NULL,
    window_start_ms INTEGER NOT NULL,
    spent_nano_usd INTEGER NOT NULL CHECK (spent_nano_usd >= 0),
    held_nano_usd INTEGER NOT NULL CHECK (held_nano_usd >= 0),
    spent_tokens INTEGER NOT NULL CHECK (spent_tokens >= 0),
    held_tokens INTEGER NOT NULL CHECK (held_tokens >= 0),
    PRIMARY KEY (budget_id, period, window_start_ms)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE holds (
    id TEXT PRIMARY KEY,
    provider_id TEXT NOT NULL,
    session_id TEXT,
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    document TEXT NOT NULL
  ) STRICT;
  CREATE INDEX holds_created ON holds (created_at_ms);
  CREATE INDEX holds_provider ON holds (provider_id);
  CREATE INDEX holds_session ON holds (session_id) WHERE session_id IS NOT NULL;

  CREATE TABLE quotas (
    id TEXT PRIMARY KEY,
    scope_kind TEXT NOT NULL,
    scope_ref TEXT NOT NULL,
    requests_per_minute INTEGER CHECK (requests_per_minute >= 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute >= 0),
    concurrent INTEGER CHECK (concurrent >= 0),
    updated_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX quotas_scope ON quotas (scope_kind, scope_ref);
  CREATE TABLE quota_uses (
    hold_id TEXT PRIMARY KEY,
    provider_id TEXT NOT NULL,
    session_id TEXT,
    at_ms INTEGER NOT NULL,
    tokens INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX quota_uses_at ON quota_uses (at_ms);
  CREATE INDEX quota_uses_provider ON quota_uses (provider_id, at_ms, tokens);
  CREATE INDEX quota_uses_session ON quota_uses (session_id, at_ms, tokens) WHERE session_id IS NOT NULL;
`
