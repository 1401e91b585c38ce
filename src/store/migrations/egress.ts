/** The hosts that sandboxes can reach. */

/** The operator and the scope of a rule are computed from the sealed document, so that no copy can differ from it. */
export const egress = `
  CREATE TABLE egress_rules (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    operator TEXT GENERATED ALWAYS AS (document ->> '$.operator') VIRTUAL,
    scope TEXT GENERATED ALWAYS AS (coalesce(document ->> '$.sandbox_id', 'any')) VIRTUAL
  ) STRICT;
  CREATE INDEX egress_rules_scope ON egress_rules (scope, operator);
`
