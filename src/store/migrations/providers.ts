/** What was switched on about providers. */
export const providers = `
  CREATE TABLE provider_settings (
    provider_id TEXT PRIMARY KEY,
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    base_url TEXT NOT NULL,
    model TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL
  ) STRICT;
`
