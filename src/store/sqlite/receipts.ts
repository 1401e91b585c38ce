/** The tables of receipts, their Merkle tree, the open receipts, and the keys that sealed the log. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import type {
  CheckpointRow,
  LastReceipt,
  LogKeyRow,
  LogKeyTable,
  OpenReceiptRow,
  OpenReceiptTable,
  ReceiptFilter,
  ReceiptRow,
  ReceiptTable,
  TreeTable,
} from '../store.ts'
import { lazyStatement } from './statement.ts'

const COLUMNS = `seq, id, kind, phase, status, session_id AS sessionId, task_id AS taskId, run_id AS runId,
  handoff_id AS handoffId, policy_envelope_id AS policyEnvelopeId, begin_id AS beginId, at_ms AS atMs, leaf, line`

const FILTERS: Record<keyof ReceiptFilter, string> = {
  kind: 'kind = ?',
  status: 'status = ?',
  sessionId: 'session_id = ?',
  taskId: 'task_id = ?',
  runId: 'run_id = ?',
  handoffId: 'handoff_id = ?',
  policyEnvelopeId: 'policy_envelope_id = ?',
  sinceMs: 'at_ms >= ?',
  untilMs: 'at_ms < ?',
}

/** The filters that `receipt_links` supports, with their columns. */
const LINKS = {
  sessionId: 'session_id',
  taskId: 'task_id',
  runId: 'run_id',
  handoffId: 'handoff_id',
} as const

const INDEX_LINKS = `INSERT OR IGNORE INTO receipt_links (link, seq) ${Object.values(LINKS)
  .map(
    (column) => `SELECT '${column}:' || ${column}, seq FROM receipts
    WHERE seq >= ?1 AND seq < ?2 AND ${column} IS NOT NULL`,
  )
  .join(' UNION ALL ')}`

const FIRST_UNINDEXED = `SELECT min(seq) AS seq FROM (${Object.values(LINKS)
  .map(
    (column) => `SELECT seq FROM receipts AS r WHERE seq < ?1 AND ${column} IS NOT NULL AND NOT EXISTS
      (SELECT 1 FROM receipt_links WHERE link = '${column}:' || r.${column} AND seq = r.seq)`,
  )
  .join(' UNION ALL ')})`

/** Links are indexed up to the newest checkpoint. The newer receipts are few enough to scan. */
const BY_LINK = `(seq IN (SELECT seq FROM receipt_links WHERE link = ?)
  OR seq >= (SELECT coalesce(max(size), 0) FROM checkpoints))`

/** SQLITE_CONSTRAINT_PRIMARYKEY */
const SEQUENCE_TAKEN = 1555

export function receiptTable(database: DatabaseSync): ReceiptTable {
  const insert = lazyStatement(
    database,
    `INSERT INTO receipts (seq, id, kind, phase, status, session_id, task_id, run_id, handoff_id,
       policy_envelope_id, begin_id, at_ms, leaf, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const last = lazyStatement(
    database,
    `SELECT seq, leaf, at_ms AS atMs, (SELECT kid FROM log_keys ORDER BY from_seq DESC LIMIT 1) AS kid
     FROM receipts ORDER BY seq DESC LIMIT 1`,
  )
  const byId = lazyStatement(database, `SELECT ${COLUMNS} FROM receipts WHERE id = ?`)
  const byBegin = lazyStatement(database, `SELECT ${COLUMNS} FROM receipts WHERE begin_id = ?`)
  const indexLinks = lazyStatement(database, INDEX_LINKS)
  const scan = lazyStatement(database, `SELECT ${COLUMNS} FROM receipts WHERE seq >= ? ORDER BY seq LIMIT ?`)
  return {
    async insert(row) {
      try {
        insert().run(
          row.seq,
          row.id,
          row.kind,
          row.phase,
          row.status,
          row.sessionId,
          row.taskId,
          row.runId,
          row.handoffId,
          row.policyEnvelopeId,
          row.beginId,
          row.atMs,
          row.leaf,
          row.line,
        )
        return true
      } catch (error) {
        if ((error as { errcode?: number }).errcode === SEQUENCE_TAKEN) return false
        throw error
      }
    },
    last: async () => last().get() as LastReceipt | undefined,
    get: async (id) => byId().get(id) as ReceiptRow | undefined,
    endOf: async (beginId) => byBegin().get(beginId) as ReceiptRow | undefined,
    scan: async (from, limit) => scan().all(from, limit) as unknown as ReceiptRow[],
    async indexLinks(from, to) {
      indexLinks().run(from, to)
    },
    firstUnindexed: async (upTo) =>
      (database.prepare(FIRST_UNINDEXED).get(upTo)?.seq as number | null | undefined) ?? undefined,
    async find(filter, limit, before) {
      const wanted = (Object.keys(filter) as (keyof ReceiptFilter)[]).filter(
        (key) => filter[key] !== undefined,
      )
      const conditions = wanted.map((key) => FILTERS[key])
      const values: SQLInputValue[] = wanted.map((key) => filter[key]!)
      const link = wanted.find((key) => key in LINKS) as keyof typeof LINKS | undefined
      if (link !== undefined) {
        conditions.push(BY_LINK)
        values.push(`${LINKS[link]}:${filter[link]}`)
      }
      if (before !== undefined) {
        conditions.push('seq < ?')
        values.push(before)
      }
      const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
      return database
        .prepare(`SELECT ${COLUMNS} FROM receipts ${where} ORDER BY seq DESC LIMIT ?`)
        .all(...values, limit) as unknown as ReceiptRow[]
    },
  }
}

export function treeTable(database: DatabaseSync): TreeTable {
  const leaves = lazyStatement(database, 'SELECT leaf FROM receipts WHERE seq >= ? AND seq < ? ORDER BY seq')
  const node = lazyStatement(database, 'SELECT hash FROM tree_nodes WHERE level = ? AND position = ?')
  const putNode = lazyStatement(database, 'INSERT INTO tree_nodes (level, position, hash) VALUES (?, ?, ?)')
  const put = lazyStatement(database, 'INSERT INTO checkpoints (size, root, note, at_ms) VALUES (?, ?, ?, ?)')
  const last = lazyStatement(
    database,
    'SELECT size, root, note, at_ms AS atMs FROM checkpoints ORDER BY size DESC LIMIT 1',
  )
  const one = lazyStatement(
    database,
    'SELECT size, root, note, at_ms AS atMs FROM checkpoints WHERE size = ?',
  )
  const range = lazyStatement(
    database,
    'SELECT size, root, note, at_ms AS atMs FROM checkpoints WHERE size > ? AND size <= ? ORDER BY size',
  )
  return {
    leaves: async (from, to) =>
      leaves()
        .all(from, to)
        .map((row) => row.leaf as Uint8Array),
    node: async (level, index) => node().get(level, index)?.hash as Uint8Array | undefined,
    async putNode(level, index, hash) {
      putNode().run(level, index, hash)
    },
    async putCheckpoint(row) {
      put().run(row.size, row.root, row.note, row.atMs)
    },
    lastCheckpoint: async () => last().get() as CheckpointRow | undefined,
    checkpoint: async (size) => one().get(size) as CheckpointRow | undefined,
    checkpoints: async (after, upTo) => range().all(after, upTo) as unknown as CheckpointRow[],
  }
}

export function openReceiptTable(database: DatabaseSync): OpenReceiptTable {
  const add = lazyStatement(
    database,
    'INSERT INTO open_receipts (id, boot_id, pid, started_at, pid_namespace) VALUES (?, ?, ?, ?, ?)',
  )
  const remove = lazyStatement(database, 'DELETE FROM open_receipts WHERE id = ?')
  const list = lazyStatement(
    database,
    'SELECT id, boot_id, pid, started_at, pid_namespace FROM open_receipts ORDER BY id',
  )
  return {
    async add({ id, owner }) {
      add().run(id, owner.bootId, owner.pid, owner.startedAt, owner.pidNamespace)
    },
    remove: async (id) => remove().run(id).changes === 1,
    list: async () =>
      list()
        .all()
        .map((row) => ({
          id: row.id as OpenReceiptRow['id'],
          owner: {
            bootId: row.boot_id as string,
            pid: row.pid as number,
            startedAt: row.started_at as string,
            pidNamespace: row.pid_namespace as string,
          },
        })),
  }
}

export function logKeyTable(database: DatabaseSync): LogKeyTable {
  const add = lazyStatement(
    database,
    'INSERT INTO log_keys (kid, origin, vkey, from_seq) VALUES (?, ?, ?, ?)',
  )
  const list = lazyStatement(
    database,
    'SELECT kid, origin, vkey, from_seq AS fromSeq FROM log_keys ORDER BY from_seq',
  )
  return {
    async add(row) {
      add().run(row.kid, row.origin, row.vkey, row.fromSeq)
    },
    current: async () => (list().all() as unknown as LogKeyRow[]).at(-1),
    list: async () => list().all() as unknown as LogKeyRow[],
  }
}
