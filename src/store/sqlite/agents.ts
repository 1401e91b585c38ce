/** The tables of logins, sessions, runs, handoffs and events, over one connection. */
import type { DatabaseSync } from 'node:sqlite'
import type {
  AgentEventRow,
  AgentEventTable,
  HandoffTable,
  LoginRow,
  LoginTable,
  RunTable,
  SealedRow,
  SealedTable,
  SessionTable,
} from '../agent-tables.ts'
import { lazyStatement } from './statement.ts'

/** SQLITE_CONSTRAINT_PRIMARYKEY */
const ID_TAKEN = 1555

export function loginTable(database: DatabaseSync): LoginTable {
  const columns = 'id, subject, issuer, since_ms AS sinceMs, ended_at_ms AS endedAtMs'
  const insert = lazyStatement(
    database,
    'INSERT INTO logins (id, subject, issuer, since_ms, ended_at_ms) VALUES (?, ?, ?, ?, ?)',
  )
  const active = lazyStatement(
    database,
    `SELECT ${columns} FROM logins WHERE ended_at_ms IS NULL ORDER BY since_ms DESC, id DESC LIMIT 1`,
  )
  const end = lazyStatement(
    database,
    'UPDATE logins SET ended_at_ms = ? WHERE id = ? AND ended_at_ms IS NULL',
  )
  const list = lazyStatement(
    database,
    `SELECT ${columns} FROM logins ORDER BY since_ms DESC, id DESC LIMIT ?`,
  )
  return {
    async insert(row) {
      insert().run(row.id, row.subject, row.issuer, row.sinceMs, row.endedAtMs)
    },
    active: async () => active().get() as LoginRow | undefined,
    end: async (id, atMs) => end().run(atMs, id).changes === 1,
    list: async (limit) => list().all(limit) as unknown as LoginRow[],
  }
}

/** Creates a table of one kind of records, each with its seal. */
export function createSealedTable<Member extends string>(
  database: DatabaseSync,
  name: string,
): SealedTable<Member> {
  const columns = 'id, document, seal, created_at_ms AS createdAtMs'
  const insert = lazyStatement(
    database,
    `INSERT INTO ${name} (id, document, seal, created_at_ms) VALUES (?, ?, ?, ?)`,
  )
  const update = lazyStatement(database, `UPDATE ${name} SET document = ?, seal = ? WHERE id = ?`)
  const remove = lazyStatement(database, `DELETE FROM ${name} WHERE id = ?`)
  const get = lazyStatement(database, `SELECT ${columns} FROM ${name} WHERE id = ?`)
  return {
    async insert(row) {
      try {
        insert().run(row.id, row.document, row.seal, row.createdAtMs)
        return true
      } catch (error) {
        if ((error as { errcode?: number }).errcode === ID_TAKEN) return false
        throw error
      }
    },
    update: async ({ id, document, seal }) => update().run(document, seal, id).changes === 1,
    remove: async (id) => remove().run(id).changes === 1,
    get: async (id) => get().get(id) as SealedRow | undefined,
    async list(filter, limit) {
      const wanted = Object.entries<string | undefined>(filter).filter(([, value]) => value !== undefined)
      const where = wanted.length === 0 ? '' : `WHERE ${wanted.map(([key]) => `${key} = ?`).join(' AND ')}`
      const values = wanted.map(([, value]) => value!)
      return database
        .prepare(`SELECT ${columns} FROM ${name} ${where} ORDER BY created_at_ms DESC, id DESC LIMIT ?`)
        .all(...values, limit) as unknown as SealedRow[]
    },
  }
}

export const sessionTable = (database: DatabaseSync): SessionTable => createSealedTable(database, 'sessions')
export const runTable = (database: DatabaseSync): RunTable => createSealedTable(database, 'runs')
export const handoffTable = (database: DatabaseSync): HandoffTable => createSealedTable(database, 'handoffs')

export function agentEventTable(database: DatabaseSync): AgentEventTable {
  const columns = 'session_id AS sessionId, run_id AS runId, type, at_ms AS atMs, document'
  const append = lazyStatement(
    database,
    'INSERT INTO agent_events (session_id, run_id, type, at_ms, document) VALUES (?, ?, ?, ?, ?)',
  )
  const bySession = lazyStatement(
    database,
    `SELECT ${columns} FROM agent_events WHERE session_id = ? ORDER BY seq LIMIT ?`,
  )
  const removeWith = lazyStatement(database, 'DELETE FROM agent_events WHERE session_id = ?')
  const byRun = lazyStatement(
    database,
    `SELECT ${columns} FROM agent_events WHERE run_id = ? ORDER BY seq LIMIT ?`,
  )
  return {
    async append(row) {
      append().run(row.sessionId, row.runId, row.type, row.atMs, row.document)
    },
    removeWith: async (sessionId) => Number(removeWith().run(sessionId).changes),
    list: async (of, limit) =>
      ('sessionId' in of
        ? bySession().all(of.sessionId, limit)
        : byRun().all(of.runId, limit)) as unknown as AgentEventRow[],
  }
}
