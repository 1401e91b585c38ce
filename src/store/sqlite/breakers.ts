/** The table of circuit breakers in SQLite. */
import type { DatabaseSync } from 'node:sqlite'
import type { BreakerRow, BreakerTable, ProbeRow } from '../breaker-table.ts'
import { lazyStatement } from './statement.ts'

const COLUMNS = 'provider_id, failures, openings, open_until_ms, last_failure, probe_id, updated_at_ms'
/** The columns in which an earlier version recorded its only probe. */
const SINGLE_PROBE = 'probe_boot_id, probe_pid, probe_started_at, probe_pid_namespace, probe_since_ms'

export function breakerTable(database: DatabaseSync): BreakerTable {
  const put = lazyStatement(
    database,
    `INSERT OR REPLACE INTO provider_breakers (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = lazyStatement(
    database,
    `SELECT ${COLUMNS}, ${SINGLE_PROBE} FROM provider_breakers WHERE provider_id = ?`,
  )
  const list = lazyStatement(
    database,
    `SELECT ${COLUMNS}, ${SINGLE_PROBE} FROM provider_breakers ORDER BY provider_id`,
  )
  const remove = lazyStatement(database, 'DELETE FROM provider_breakers WHERE provider_id = ?')
  return {
    async put(row) {
      put().run(
        row.providerId,
        row.failures,
        row.openings,
        row.openUntilMs,
        row.lastFailure,
        row.probes.length === 0 ? null : JSON.stringify(row.probes),
        row.updatedAtMs,
      )
    },
    async get(providerId) {
      const row = get().get(providerId)
      return row && parse(row)
    },
    list: async () => list().all().map(parse),
    remove: async (providerId) => remove().run(providerId).changes === 1,
  }
}

function parse(row: Record<string, unknown>): BreakerRow {
  return {
    providerId: row.provider_id as string,
    failures: row.failures as number,
    openings: row.openings as number,
    openUntilMs: row.open_until_ms as number | null,
    lastFailure: row.last_failure as string | null,
    probes: parseProbes(row),
    updatedAtMs: row.updated_at_ms as number,
  }
}

/** `probe_id` contains a JSON list. A bare id is from an earlier version, which had one probe for all callers. */
function parseProbes(row: Record<string, unknown>): readonly ProbeRow[] {
  const text = row.probe_id as string | null
  if (text === null) return []
  if (text.startsWith('[')) return JSON.parse(text) as ProbeRow[]
  const owner = {
    bootId: row.probe_boot_id as string,
    pid: row.probe_pid as number,
    startedAt: row.probe_started_at as string,
    pidNamespace: row.probe_pid_namespace as string,
  }
  return [{ id: text, caller: null, owner, sinceMs: row.probe_since_ms as number }]
}
