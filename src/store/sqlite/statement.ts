/** A statement that is prepared when it is first used: opening the store stays cheap. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'

export function lazily(database: DatabaseSync, sql: string): () => StatementSync {
  let statement: StatementSync | undefined
  return () => {
    statement ??= database.prepare(sql)
    return statement
  }
}
