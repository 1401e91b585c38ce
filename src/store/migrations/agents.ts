/** Operator logins, agent sessions, runs, their events and handoffs. */
const sealedTableSql = (name: string, members: readonly string[]) => `
  CREATE TABLE ${name} (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    ${members.map((member) => `${member} TEXT GENERATED ALWAYS AS (document ->> '$.${member}') VIRTUAL`).join(',\n    ')}
  ) STRICT;
  ${members.map((member) => `CREATE INDEX ${name}_${member} ON ${name} (${member});`).join('\n  ')}
`

/** The columns for filters are computed from the sealed document, so that no copy can differ from it. */
export const agents = `
  CREATE TABLE logins (
    id TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    issuer TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    ended_at_ms INTEGER
  ) STRICT;
  CREATE UNIQUE INDEX logins_active ON logins (issuer) WHERE ended_at_ms IS NULL;
  ${sealedTableSql('sessions', ['status', 'operator_subject'])}
  ${sealedTableSql('runs', ['status', 'session_id', 'task_id'])}
  ${sealedTableSql('handoffs', ['status', 'session_id', 'run_id'])}
  CREATE TABLE agent_events (
    seq INTEGER PRIMARY KEY,
    session_id TEXT,
    run_id TEXT,
    type TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    document TEXT NOT NULL
  ) STRICT;
  CREATE INDEX agent_events_session ON agent_events (session_id, seq);
  CREATE INDEX agent_events_run ON agent_events (run_id, seq);
  CREATE TRIGGER agent_events_never_change BEFORE UPDATE ON agent_events
    BEGIN SELECT RAISE(ABORT, 'agent events are append-only'); END;
  CREATE TRIGGER agent_events_never_leave BEFORE DELETE ON agent_events
    WHEN OLD.session_id IS NULL OR EXISTS (SELECT 1 FROM sessions WHERE id = OLD.session_id)
    BEGIN SELECT RAISE(ABORT, 'agent events are append-only'); END;
`
