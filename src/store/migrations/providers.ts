/** The settings of providers, and an index for the grants that a call could use. */
export const providers = `
  CREATE INDEX grants_for ON grants (capability, subject, created_at_ms);
  CREATE TABLE provider_settings (
    provider_id TEXT PRIMARY KEY,
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    base_url TEXT NOT NULL,
    model TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL
  ) STRICT;
`
