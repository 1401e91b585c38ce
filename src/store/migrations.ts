/** The schema as numbered migrations. A released migration is never edited. */
import { agents } from './migrations/agents.ts'
import { breakers } from './migrations/breakers.ts'
import { egress } from './migrations/egress.ts'
import { ledger } from './migrations/ledger.ts'
import { prompts } from './migrations/prompts.ts'
import { providers } from './migrations/providers.ts'
import { receiptsAndGrants } from './migrations/receipts-and-grants.ts'
import { sandboxes } from './migrations/sandboxes.ts'
import { snapshots } from './migrations/snapshots.ts'
import { warmInstances } from './migrations/warm-instances.ts'

export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

/** The migrations that a database has had. This table is created before the first of them. */
export const VERSIONS_TABLE = `
  CREATE TABLE IF NOT EXISTS schema_versions (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL
  ) STRICT`

export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: 'ground floor', sql: receiptsAndGrants },
  {
    version: 2,
    name: 'providers, budgets, persistent agents',
    sql: [providers, ledger, breakers, agents].join('\n'),
  },
  { version: 3, name: 'sandboxes', sql: sandboxes },
  { version: 4, name: 'snapshots', sql: snapshots },
  { version: 5, name: 'warm places', sql: warmInstances },
  { version: 6, name: 'egress', sql: egress },
  { version: 7, name: 'prompts', sql: prompts },
]

export const SCHEMA_VERSION = MIGRATIONS.at(-1)!.version
