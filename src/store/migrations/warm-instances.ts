/** Sandbox instances that wait for a sandbox. */

/** The user id is computed from the sealed document, so that no copy can differ from it. */
export const warmInstances = `
  CREATE TABLE warm_places (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    allocated_uid INTEGER GENERATED ALWAYS AS (document ->> '$.allocated_uid') VIRTUAL
  ) STRICT;
  CREATE UNIQUE INDEX warm_places_allocated_uid ON warm_places (allocated_uid) WHERE allocated_uid IS NOT NULL;
`
