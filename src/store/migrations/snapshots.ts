/** What was kept of sandboxes. */

/** The name is read out of the sealed document, so that no second copy of it can say something else. */
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
