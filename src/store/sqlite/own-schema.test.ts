import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { type Home, homeAt } from '../home.ts'
import { MIGRATIONS, VERSIONS_TABLE } from '../migrations.ts'
import { openDatabase } from './database.ts'
import { APPLICATION_ID } from './inspect-database.ts'
import { requireOwnSchema } from './own-schema.ts'

let home: Home
beforeEach(() => {
  home = homeAt(join(tempFolder('craik-schema-'), 'home'))
})

async function tamper(sql: string): Promise<void> {
  const created = await openDatabase(home)
  created.close()
  using database = new DatabaseSync(home.database, { defensive: false })
  database.exec(sql)
}

/** Replaces a table with a view that returns endless rows. */
const ENDLESS = `ALTER TABLE receipts RENAME TO hidden;
  CREATE VIEW receipts AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS seq FROM c`

describe('a database with a foreign schema', () => {
  it.each([
    [
      'a view in the place of a table',
      `DROP TABLE receipt_links; CREATE VIEW receipt_links AS SELECT 1`,
      'it has a view named "receipt_links"',
    ],
    ['a view without end', ENDLESS, /it has a (?:view named "receipts"|table named "hidden")/],
    [
      'a virtual table',
      'DROP TABLE commands; CREATE VIRTUAL TABLE commands USING fts5(a)',
      'its virtual table "commands" is not Craik’s',
    ],
    ['a table of its own', 'CREATE TABLE more (a)', 'it has a table named "more"'],
    ['an index of its own', 'CREATE INDEX more ON receipts (seq)', 'it has an index named "more"'],
    [
      'a trigger of its own',
      'CREATE TRIGGER more AFTER INSERT ON receipts BEGIN SELECT 1; END',
      'it has a trigger named "more"',
    ],
    [
      'a trigger of ours after every insert',
      `DROP TRIGGER receipts_never_leave;
       CREATE TRIGGER receipts_never_leave AFTER INSERT ON schema_versions BEGIN SELECT 1; END`,
      'its trigger "receipts_never_leave" is not Craik’s',
    ],
    [
      'a computed column',
      'DROP TABLE commands; CREATE TABLE commands (id, endless AS (hex(zeroblob(400000000))))',
      'it computes the column "commands.endless"',
    ],
    ['a name that terminals obey', 'CREATE TABLE "a\u001b[2J\u202eb" (a)', 'it has a table named "a?[2J?b"'],
    [
      'a view that is listed as a table',
      `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 0,
       sql = 'CREATE VIEW commands AS SELECT 1' WHERE name = 'commands'`,
      'damaged',
    ],
    ['the version of an earlier one', 'PRAGMA user_version = 1', 'it has a'],
  ])('is refused and not changed: %s', async (_, sql, message) => {
    await tamper(sql)
    const before = readFileSync(home.database)
    const opening = openDatabase(home)
    await expect(opening).rejects.toMatchObject({ code: 'store_damaged' })
    await expect(opening).rejects.toThrow(message)
    expect(readFileSync(home.database).equals(before)).toBe(true)
  })

  it('is refused even when only its write-ahead log contains the change', async () => {
    const created = await openDatabase(home)
    using writer = new DatabaseSync(home.database)
    writer.exec('PRAGMA wal_autocheckpoint = 0; CREATE VIEW v AS SELECT 1')
    await expect(openDatabase(home)).rejects.toThrow('it has a view named "v"')
    created.close()
  })
})

describe('a database with Craik’s schema', () => {
  it.each(MIGRATIONS.map(({ version }) => version))('opens with version %i', async (version) => {
    const created = await openDatabase(home)
    created.close()
    const path = join(home.state, 'earlier')
    {
      using earlier = new DatabaseSync(path)
      earlier.exec(`PRAGMA journal_mode = WAL; ${VERSIONS_TABLE}`)
      for (const step of MIGRATIONS.filter((one) => one.version <= version)) earlier.exec(step.sql)
      earlier.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${version}`)
      requireOwnSchema(earlier, version)
    }
    chmodSync(path, 0o600)
    const opened = await openDatabase({ ...home, database: path })
    expect(opened.prepare('PRAGMA user_version').get()).toEqual({ user_version: MIGRATIONS.at(-1)!.version })
    opened.close()
  })

  it('opens when a trigger or an index is missing, so that verification can report changed rows', async () => {
    await tamper('DROP TRIGGER receipts_never_change; DROP INDEX receipts_begin')
    const opened = await openDatabase(home)
    opened.close()
  })

  it('opens when a table has other columns, because an earlier build may have created it', async () => {
    await tamper('ALTER TABLE commands ADD COLUMN more TEXT')
    const opened = await openDatabase(home)
    opened.close()
  })
})
