/** Prepares a statement at its first use, so that the store opens fast. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'

export function lazyStatement(database: DatabaseSync, sql: string): () => StatementSync {
  let statement: StatementSync | undefined
  return () => {
    statement ??= database.prepare(sql)
    return statement
  }
}
