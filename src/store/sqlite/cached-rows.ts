/**
 * Caches the rows that nearly every decision needs, in the writer thread, for as long as they cannot have changed.
 * SQLite reports when another connection has committed. The writes of this connection go through the tables here.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Tables } from '../store.ts'

/** The limit for each kind of row, which is more than a busy home uses at a time. A policy can have a megabyte. */
const MAX_CACHED_ROWS = 128

export interface CachedRows {
  readonly tables: Tables
  /** Must be called in every transaction before the first read. */
  onBegin(): void
  /** Must be called after every rollback. */
  onRollback(): void
}

/** The connection must be used for nothing else, because the cache would not notice statements outside these tables. */
export function cacheRows(database: DatabaseSync, tables: Tables): CachedRows {
  const version = database.prepare('PRAGMA data_version')
  const envelopes = new RowCache(tables.envelopes.get)
  const documents = new RowCache(tables.documents.get)
  const grants = new RowCache(tables.grants.get)
  const budgets = new RowCache(tables.budgets.applying, ({ provider, session, sandbox, operator }) =>
    JSON.stringify([provider, session, sandbox, operator]),
  )
  const quotas = new RowCache(tables.quotas.applying, (provider, session) =>
    JSON.stringify([provider, session]),
  )
  const all = [envelopes, documents, grants, budgets, quotas]
  let seen: unknown
  return {
    onBegin() {
      // The version of this connection's snapshot, which the transaction has fixed.
      const now = version.get()?.data_version
      if (now !== seen) for (const memory of all) memory.forget()
      seen = now
    },
    onRollback() {
      for (const memory of all) memory.forget()
    },
    tables: {
      ...tables,
      envelopes: {
        ...tables.envelopes,
        get: envelopes.get,
        insert: envelopes.invalidateOn(tables.envelopes.insert),
      },
      documents: {
        ...tables.documents,
        get: documents.get,
        put: documents.invalidateOn(tables.documents.put),
      },
      grants: {
        ...tables.grants,
        get: grants.get,
        insert: grants.invalidateOn(tables.grants.insert),
        consume: grants.invalidateOn(tables.grants.consume),
        revoke: grants.invalidateOn(tables.grants.revoke),
      },
      budgets: {
        ...tables.budgets,
        applying: budgets.get,
        put: budgets.invalidateOn(tables.budgets.put),
      },
      quotas: {
        ...tables.quotas,
        applying: quotas.get,
        put: quotas.invalidateOn(tables.quotas.put),
        remove: quotas.invalidateOn(tables.quotas.remove),
      },
    },
  }
}

/** Caches the results of one query. Missing rows are queried each time. */
class RowCache<Asked extends readonly unknown[], Found> {
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
    if (this.#found.size >= MAX_CACHED_ROWS) this.#found.clear()
    // Callers can cache values that they computed from a row for as long as they get the same object.
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

  /**
   * Wraps a write to the same table. The write is complete when its function returns, so no read can happen in between.
   */
  invalidateOn<Given extends readonly unknown[], Answer>(
    write: (...provided: Given) => Promise<Answer>,
  ): (...provided: Given) => Promise<Answer> {
    return (...provided) => {
      const answer = write(...provided)
      this.forget()
      return answer
    }
  }
}
