/** Snapshots of sandboxes. */

/** The name is computed from the sealed document, so that no copy can differ from it. */
export const snapshots = `
  CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    name TEXT GENERATED ALWAYS AS (document ->> '$.name') VIRTUAL
  ) STRICT;
  CREATE UNIQUE INDEX snapshots_name ON snapshots (name);
`
