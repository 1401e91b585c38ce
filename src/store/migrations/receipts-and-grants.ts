/** Receipts and their tree, documents, envelopes, grants, secrets, command references. */
export const receiptsAndGrants = `
  CREATE TABLE receipts (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    status TEXT,
    session_id TEXT,
    task_id TEXT,
    run_id TEXT,
    handoff_id TEXT,
    policy_envelope_id TEXT,
    begin_id TEXT,
    at_ms INTEGER NOT NULL,
    leaf BLOB NOT NULL,
    line TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX receipts_id ON receipts (id);
  CREATE UNIQUE INDEX receipts_begin ON receipts (begin_id) WHERE begin_id IS NOT NULL;
  CREATE TABLE receipt_links (
    link TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (link, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER receipts_never_change BEFORE UPDATE ON receipts
    BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END;
  CREATE TRIGGER receipts_never_leave BEFORE DELETE ON receipts
    BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END;

  CREATE TABLE open_receipts (
    id TEXT PRIMARY KEY,
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    pid_namespace TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE tree_nodes (
    level INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (level, position)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY,
    root BLOB NOT NULL,
    note TEXT NOT NULL,
    at_ms INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE log_keys (
    from_seq INTEGER PRIMARY KEY,
    kid TEXT NOT NULL UNIQUE,
    origin TEXT NOT NULL,
    vkey TEXT NOT NULL
  ) STRICT;

  CREATE TABLE documents (
    digest TEXT PRIMARY KEY,
    media_type TEXT NOT NULL,
    text TEXT NOT NULL
  ) STRICT;

  CREATE TABLE envelopes (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    capability TEXT NOT NULL,
    subject TEXT NOT NULL,
    document TEXT NOT NULL,
    uses_left INTEGER CHECK (uses_left >= 0),
    expires_at_ms INTEGER,
    revoked_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    reference TEXT,
    sealed BLOB,
    updated_at_ms INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE commands (
    ref TEXT PRIMARY KEY,
    argv TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL
  ) STRICT;
`
