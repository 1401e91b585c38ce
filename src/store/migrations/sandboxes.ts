/** Sandboxes, their jobs, and the counters of their boundaries. */

/** The columns for queries are computed from the sealed document, so that no copy can differ from it. */
export const sandboxes = `
  CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    name TEXT GENERATED ALWAYS AS (document ->> '$.name') VIRTUAL,
    state TEXT GENERATED ALWAYS AS (document ->> '$.state') VIRTUAL,
    operator TEXT GENERATED ALWAYS AS (document ->> '$.operator') VIRTUAL,
    allocated_uid INTEGER GENERATED ALWAYS AS (document ->> '$.allocated_uid') VIRTUAL,
    pending_begin_id TEXT GENERATED ALWAYS AS (document ->> '$.pending.begin_id') VIRTUAL
  ) STRICT;
  CREATE UNIQUE INDEX sandboxes_name ON sandboxes (name);
  CREATE UNIQUE INDEX sandboxes_allocated_uid ON sandboxes (allocated_uid) WHERE allocated_uid IS NOT NULL;
  CREATE UNIQUE INDEX sandboxes_pending_begin ON sandboxes (pending_begin_id) WHERE pending_begin_id IS NOT NULL;
  CREATE TABLE sandbox_jobs (
    sandbox_id TEXT NOT NULL,
    job_id TEXT NOT NULL,
    begin_id TEXT NOT NULL UNIQUE,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'ended')),
    owner TEXT NOT NULL,
    adopted INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    operator TEXT GENERATED ALWAYS AS (document ->> '$.operator') VIRTUAL,
    PRIMARY KEY (sandbox_id, job_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX sandbox_jobs_open ON sandbox_jobs (sandbox_id, created_at_ms) WHERE state = 'open';
  CREATE TABLE boundary_epochs (
    sandbox_id TEXT NOT NULL,
    epoch TEXT NOT NULL,
    counts TEXT NOT NULL,
    closed INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, epoch)
  ) STRICT, WITHOUT ROWID;
`
