import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { afterEach } from 'vitest'
import { homeAt } from '../../src/store/home.ts'
import { cacheRows } from '../../src/store/sqlite/cached-rows.ts'
import { openDatabase } from '../../src/store/sqlite/database.ts'
import { createTables } from '../../src/store/sqlite/tables.ts'
import { ledgerContract } from './ledger-tables.ts'
import { sandboxContract } from './sandbox-tables.ts'
import { type StoreUnderTest, storeContract } from './store.ts'

const opened: { database: DatabaseSync; folder: string }[] = []
afterEach(() => {
  for (const { database, folder } of opened.splice(0)) {
    database.close()
    rmSync(folder, { recursive: true })
  }
})

async function open(): Promise<StoreUnderTest> {
  const folder = mkdtempSync(join(tmpdir(), 'craik-store-'))
  const database = await openDatabase(homeAt(join(folder, 'home')))
  opened.push({ database, folder })
  const tables = createTables(database)
  return {
    async transaction(work) {
      database.exec('BEGIN IMMEDIATE')
      try {
        const result = await work(tables)
        database.exec('COMMIT')
        return result
      } catch (error) {
        database.exec('ROLLBACK')
        throw error
      }
    },
  }
}

/** Opens a store with cached rows, as the writer thread does. */
async function openCached(): Promise<StoreUnderTest> {
  await open()
  const { database } = opened.at(-1)!
  const rows = cacheRows(database, createTables(database))
  return {
    async transaction(work) {
      database.exec('BEGIN IMMEDIATE')
      try {
        rows.onBegin()
        const result = await work(rows.tables)
        database.exec('COMMIT')
        return result
      } catch (error) {
        database.exec('ROLLBACK')
        rows.onRollback()
        throw error
      }
    },
  }
}

storeContract('SQLite', open)
ledgerContract('SQLite', open)
sandboxContract('SQLite', open)
storeContract('SQLite, with rows remembered,', openCached)
ledgerContract('SQLite, with rows remembered,', openCached)
