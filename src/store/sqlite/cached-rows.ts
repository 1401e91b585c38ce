/**
 * Rows that nearly every decision looks up, remembered in the writer thread for as long as nobody can have changed
 * them: SQLite tells when another connection has committed, and what this one writes goes through the tables here.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Tables } from '../store.ts'

/** Of each kind: more than a busy home uses at a time. A policy may be a megabyte. */
const REMEMBERED_MAX = 128

export interface CachedRows {
  readonly tables: Tables
  /** Inside every transaction, before anything is read. */
  onBegin(): void
  /** After anything was undone. */
  undone(): void
}

/** The connection must be used for nothing else: a statement beside these tables would not be noticed. */
export function cacheRows(database: DatabaseSync, tables: Tables): CachedRows {
  const version = database.prepare('PRAGMA data_version')
  const envelopes = new Memory(tables.envelopes.get)
  const documents = new Memory(tables.documents.get)
  const grants = new Memory(tables.grants.get)
  const budgets = new Memory(tables.budgets.applying, ({ provider, session, sandbox, operator }) =>
    JSON.stringify([provider, session, sandbox, operator]),
  )
  const quotas = new Memory(tables.quotas.applying, (provider, session) =>
    JSON.stringify([provider, session]),
  )
  const all = [envelopes, documents, grants, budgets, quotas]
  let seen: unknown
  return {
    onBegin() {
      // Of this connection's snapshot, which the transaction has fixed.
      const now = version.get()?.data_version
      if (now !== seen) for (const memory of all) memory.forget()
      seen = now
    },
    undone() {
      for (const memory of all) memory.forget()
    },
    tables: {
      ...tables,
      envelopes: {
        ...tables.envelopes,
        get: envelopes.get,
        insert: envelopes.forgetting(tables.envelopes.insert),
      },
      documents: {
        ...tables.documents,
        get: documents.get,
        put: documents.forgetting(tables.documents.put),
      },
      grants: {
        ...tables.grants,
        get: grants.get,
        insert: grants.forgetting(tables.grants.insert),
        consume: grants.forgetting(tables.grants.consume),
        revoke: grants.forgetting(tables.grants.revoke),
      },
      budgets: {
        ...tables.budgets,
        applying: budgets.get,
        put: budgets.forgetting(tables.budgets.put),
      },
      quotas: {
        ...tables.quotas,
        applying: quotas.get,
        put: quotas.forgetting(tables.quotas.put),
        remove: quotas.forgetting(tables.quotas.remove),
      },
    },
  }
}

/** What one reader answered. What was not found is looked for again each time. */
class Memory<Asked extends readonly unknown[], Found> {
  readonly #read: (...request: Asked) => Promise<Found>
  readonly #keyOf: (...request: Asked) => string
  readonly #found = new Map<string, Found>()
  #generation = 0

  constructor(
    read: (...request: Asked) => Promise<Found>,
    keyOf: (...request: Asked) => string = (...[id]) => id as string,
  ) {
    this.#read = read
    this.#keyOf = keyOf
  }

  readonly get = async (...request: Asked): Promise<Found> => {
    const key = this.#keyOf(...request)
    const known = this.#found.get(key)
    if (known !== undefined) return known
    const generation = this.#generation
    const found = await this.#read(...request)
    if (found === undefined || generation !== this.#generation) return found
    if (this.#found.size >= REMEMBERED_MAX) this.#found.clear()
    // Whoever gets it may keep what it derived from it for as long as the row is the same object.
    const fixed = Object.freeze(
      Array.isArray(found) ? found.map((row) => Object.freeze(row)) : found,
    ) as Found
    this.#found.set(key, fixed)
    return fixed
  }

  forget(): void {
    this.#generation++
    this.#found.clear()
  }

  /** A write of the same table. It is done when its function returns, so nothing is read in between. */
  forgetting<Given extends readonly unknown[], Answer>(
    write: (...provided: Given) => Promise<Answer>,
  ): (...provided: Given) => Promise<Answer> {
    return (...provided) => {
      const answer = write(...provided)
      this.forget()
      return answer
    }
  }
}
