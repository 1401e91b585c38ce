/** The providers that are in cooldown. */
export const breakers = `
  CREATE TABLE provider_breakers (
    provider_id TEXT PRIMARY KEY,
    failures INTEGER NOT NULL CHECK (failures >= 0),
    openings INTEGER NOT NULL CHECK (openings >= 0),
    open_until_ms INTEGER,
    last_failure TEXT,
    probe_id TEXT,
    probe_boot_id TEXT,
    probe_pid INTEGER,
    probe_started_at TEXT,
    probe_pid_namespace TEXT,
    probe_since_ms INTEGER,
    updated_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`
