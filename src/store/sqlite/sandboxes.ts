/** The tables of sandboxes, their jobs and the counters of their boundaries, over one connection. */
import type { DatabaseSync } from 'node:sqlite'
import type { Owner } from '../../lib/owner.ts'
import type {
  BoundaryEpochRow,
  BoundaryEpochTable,
  SandboxJobRow,
  SandboxJobTable,
  SandboxTable,
} from '../sandbox-tables.ts'
import { createSealedTable } from './agents.ts'
import { lazyStatement } from './statement.ts'

export function sandboxTable(database: DatabaseSync): SandboxTable {
  const holds = lazyStatement(
    database,
    `SELECT EXISTS (SELECT 1 FROM sandbox_jobs
                    WHERE begin_id = ?1 AND state = 'open' AND sandbox_id IN (SELECT id FROM sandboxes))
         OR EXISTS (SELECT 1 FROM sandboxes WHERE pending_begin_id = ?1) AS held`,
  )
  return {
    ...createSealedTable<'name' | 'state' | 'operator'>(database, 'sandboxes'),
    holds: async (beginId) => (holds().get(beginId) as { held: number }).held === 1,
  }
}

export function sandboxJobTable(database: DatabaseSync): SandboxJobTable {
  const columns = `sandbox_id AS sandboxId, job_id AS jobId, begin_id AS beginId, document, seal, state, owner, adopted,
    created_at_ms AS createdAtMs, operator`
  const insert = lazyStatement(
    database,
    `INSERT INTO sandbox_jobs (sandbox_id, job_id, begin_id, document, seal, state, owner, adopted, created_at_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sandbox_id, job_id) DO NOTHING`,
  )
  const get = lazyStatement(
    database,
    `SELECT ${columns} FROM sandbox_jobs WHERE sandbox_id = ? AND job_id = ?`,
  )
  const open = lazyStatement(
    database,
    `SELECT ${columns} FROM sandbox_jobs WHERE sandbox_id = ? AND state = 'open' ORDER BY created_at_ms, job_id`,
  )
  const scan = lazyStatement(
    database,
    `SELECT ${columns} FROM sandbox_jobs WHERE (sandbox_id, job_id) > (?, ?) ORDER BY sandbox_id, job_id LIMIT ?`,
  )
  const end = lazyStatement(
    database,
    `UPDATE sandbox_jobs SET state = 'ended' WHERE sandbox_id = ? AND job_id = ? AND state = 'open'`,
  )
  const update = lazyStatement(
    database,
    'UPDATE sandbox_jobs SET document = ?, seal = ? WHERE sandbox_id = ? AND job_id = ?',
  )
  const adopt = lazyStatement(
    database,
    `UPDATE sandbox_jobs SET owner = ?, adopted = 1 WHERE sandbox_id = ? AND job_id = ? AND state = 'open'`,
  )
  const newestOld = lazyStatement(
    database,
    `SELECT job_id AS jobId FROM sandbox_jobs WHERE sandbox_id = ? AND state = 'ended'
     ORDER BY job_id DESC LIMIT 1 OFFSET ?`,
  )
  const removeUpTo = lazyStatement(
    database,
    `DELETE FROM sandbox_jobs WHERE sandbox_id = ? AND state = 'ended' AND job_id <= ?`,
  )
  const removeAll = lazyStatement(database, 'DELETE FROM sandbox_jobs WHERE sandbox_id = ?')
  return {
    async insert({ sandboxId, jobId, beginId, document, seal, state, owner, adopted, createdAtMs }) {
      const done = insert().run(
        sandboxId,
        jobId,
        beginId,
        document,
        seal,
        state,
        JSON.stringify(owner),
        Number(adopted),
        createdAtMs,
      )
      return done.changes === 1
    },
    get: async (sandboxId, jobId) => jobRow(get().get(sandboxId, jobId)),
    open: async (sandboxId) =>
      open()
        .all(sandboxId)
        .map((row) => jobRow(row)!),
    scan: async (after, limit) =>
      scan()
        .all(after?.sandboxId ?? '', after?.jobId ?? '', limit)
        .map((row) => jobRow(row)!),
    end: async (sandboxId, jobId) => end().run(sandboxId, jobId).changes === 1,
    update: async ({ sandboxId, jobId, document, seal }) =>
      update().run(document, seal, sandboxId, jobId).changes === 1,
    adopt: async (sandboxId, jobId, owner) =>
      adopt().run(JSON.stringify(owner), sandboxId, jobId).changes === 1,
    async removeOld(sandboxId, keep) {
      const newest = newestOld().get(sandboxId, keep) as { jobId: SandboxJobRow['jobId'] } | undefined
      if (newest !== undefined) removeUpTo().run(sandboxId, newest.jobId)
      return newest?.jobId
    },
    async removeAll(sandboxId) {
      removeAll().run(sandboxId)
    },
  }
}

function jobRow(row: unknown): SandboxJobRow | undefined {
  if (row === undefined) return undefined
  const stored = row as Omit<SandboxJobRow, 'owner' | 'adopted'> & { owner: string; adopted: number }
  return { ...stored, owner: ownerIn(stored.owner), adopted: stored.adopted === 1 }
}

/** A row that another program wrote must not hide the other rows. */
function ownerIn(text: string): Owner | null {
  try {
    const { bootId, pid, startedAt, pidNamespace } = JSON.parse(text) as Partial<Owner>
    const isOwner =
      typeof bootId === 'string' &&
      typeof pid === 'number' &&
      typeof startedAt === 'string' &&
      typeof pidNamespace === 'string'
    return isOwner ? { bootId, pid, startedAt, pidNamespace } : null
  } catch {
    return null
  }
}

export function boundaryEpochTable(database: DatabaseSync): BoundaryEpochTable {
  const columns = 'sandbox_id AS sandboxId, epoch, counts, closed, updated_at_ms AS updatedAtMs'
  const put = lazyStatement(
    database,
    `INSERT INTO boundary_epochs (sandbox_id, epoch, counts, closed, updated_at_ms) VALUES (?, ?, ?, 0, ?)
     ON CONFLICT (sandbox_id, epoch) DO UPDATE SET counts = excluded.counts, updated_at_ms = excluded.updated_at_ms
     WHERE closed = 0`,
  )
  const get = lazyStatement(
    database,
    `SELECT ${columns} FROM boundary_epochs WHERE sandbox_id = ? AND epoch = ?`,
  )
  const close = lazyStatement(
    database,
    'UPDATE boundary_epochs SET closed = 1 WHERE sandbox_id = ? AND epoch = ? AND closed = 0',
  )
  const open = lazyStatement(
    database,
    `SELECT ${columns} FROM boundary_epochs WHERE closed = 0 AND sandbox_id = coalesce(?, sandbox_id)
     ORDER BY sandbox_id, epoch`,
  )
  const removeAll = lazyStatement(database, 'DELETE FROM boundary_epochs WHERE sandbox_id = ?')
  return {
    put: async ({ sandboxId, epoch, counts, updatedAtMs }) =>
      put().run(sandboxId, epoch, counts, updatedAtMs).changes === 1,
    get: async (sandboxId, epoch) => epochRow(get().get(sandboxId, epoch)),
    close: async (sandboxId, epoch) => close().run(sandboxId, epoch).changes === 1,
    open: async (sandboxId) =>
      open()
        .all(sandboxId ?? null)
        .map((row) => epochRow(row)!),
    async removeAll(sandboxId) {
      removeAll().run(sandboxId)
    },
  }
}

function epochRow(row: unknown): BoundaryEpochRow | undefined {
  if (row === undefined) return undefined
  const stored = row as Omit<BoundaryEpochRow, 'closed'> & { closed: number }
  return { ...stored, closed: stored.closed === 1 }
}
