/** Prompts to agents in sandboxes. */

export const prompts = `
  CREATE TABLE prompt_runs (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    status TEXT GENERATED ALWAYS AS (document ->> '$.status') VIRTUAL,
    sandbox_id TEXT GENERATED ALWAYS AS (document ->> '$.sandbox_id') VIRTUAL
  ) STRICT;
  CREATE INDEX prompt_runs_sandbox ON prompt_runs (sandbox_id);
`
