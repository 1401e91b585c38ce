/** Breakers over SQLite. */
import type { DatabaseSync } from 'node:sqlite'
import type { BreakerRow, BreakerTable } from '../breaker-table.ts'
import { lazily } from './statement.ts'

const COLUMNS = `provider_id, failures, openings, open_until_ms, last_failure, probe_id, probe_boot_id, probe_pid,
  probe_started_at, probe_pid_namespace, probe_since_ms, updated_at_ms`

export function breakerTable(database: DatabaseSync): BreakerTable {
  const put = lazily(
    database,
    `INSERT OR REPLACE INTO provider_breakers (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = lazily(database, `SELECT ${COLUMNS} FROM provider_breakers WHERE provider_id = ?`)
  const list = lazily(database, `SELECT ${COLUMNS} FROM provider_breakers ORDER BY provider_id`)
  const remove = lazily(database, 'DELETE FROM provider_breakers WHERE provider_id = ?')
  return {
    async put({ probe, ...row }) {
      put().run(
        row.providerId,
        row.failures,
        row.openings,
        row.openUntilMs,
        row.lastFailure,
        probe?.id ?? null,
        probe?.owner.bootId ?? null,
        probe?.owner.pid ?? null,
        probe?.owner.startedAt ?? null,
        probe?.owner.pidNamespace ?? null,
        probe?.sinceMs ?? null,
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
    probe:
      row.probe_id === null
        ? null
        : {
            id: row.probe_id as string,
            owner: {
              bootId: row.probe_boot_id as string,
              pid: row.probe_pid as number,
              startedAt: row.probe_started_at as string,
              pidNamespace: row.probe_pid_namespace as string,
            },
            sinceMs: row.probe_since_ms as number,
          },
    updatedAtMs: row.updated_at_ms as number,
  }
}
