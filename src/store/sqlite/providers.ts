/** The table of provider settings. */
import type { DatabaseSync } from 'node:sqlite'
import type { ProviderSettingRow, ProviderSettingTable } from '../store.ts'
import { lazyStatement } from './statement.ts'

export function providerSettingTable(database: DatabaseSync): ProviderSettingTable {
  const columns = `provider_id AS providerId, enabled, base_url AS baseUrl, model,
    updated_at_ms AS updatedAtMs`
  const put = lazyStatement(
    database,
    `INSERT OR REPLACE INTO provider_settings (provider_id, enabled, base_url, model, updated_at_ms)
     VALUES (?, ?, ?, ?, ?)`,
  )
  const get = lazyStatement(database, `SELECT ${columns} FROM provider_settings WHERE provider_id = ?`)
  const list = lazyStatement(database, `SELECT ${columns} FROM provider_settings ORDER BY provider_id`)
  const parse = (row: Record<string, unknown>): ProviderSettingRow => ({
    ...(row as unknown as ProviderSettingRow),
    enabled: row.enabled === 1,
  })
  return {
    async put(row) {
      put().run(row.providerId, row.enabled ? 1 : 0, row.baseUrl, row.model, row.updatedAtMs)
    },
    async get(providerId) {
      const row = get().get(providerId)
      return row && parse(row)
    },
    list: async () => list().all().map(parse),
  }
}
