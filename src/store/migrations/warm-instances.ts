/** Places that wait for a sandbox. */

/** The user is read out of the sealed document, so that no second copy of it can say something else. */
export const warmPlaces = `
  CREATE TABLE warm_places (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    allocated_uid INTEGER GENERATED ALWAYS AS (document ->> '$.allocated_uid') VIRTUAL
  ) STRICT;
  CREATE UNIQUE INDEX warm_places_allocated_uid ON warm_places (allocated_uid) WHERE allocated_uid IS NOT NULL;
`
