/** Opening the database: private, recognised, migrated, or refused without being touched. */
import { closeSync, existsSync, fstatSync, openSync, readSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import type { Home } from '../home.ts'
import { MIGRATIONS, SCHEMA_VERSION } from '../migrations.ts'

/** `CRAI` in the header tells our file from any other SQLite database. */
const APPLICATION_ID = 0x43524149
/** How long a write waits for another process before it says that the store is busy. */
const BUSY_TIMEOUT_MS = 30_000

/** Opens the home's database, creating and migrating it when needed. */
export async function openDatabase(home: Home): Promise<DatabaseSync> {
  ensurePrivateFolder(home.root, 'home folder')
  ensurePrivateFolder(home.state, 'state folder')
  createEmpty(home.database)
  inspectHeader(home.database)
  return withPatience(home, () => {
    const database = new DatabaseSync(home.database, { timeout: BUSY_TIMEOUT_MS })
    try {
      migrate(database)
      // FULL: a commit that was acknowledged survives power loss.
      database.exec('PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF')
      return database
    } catch (error) {
      database.close()
      throw error
    }
  })
}

/** SQLite would create the file with the umask's mode; ours is private from its first byte. */
function createEmpty(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return
    throw translateError(error, dirname(path))
  }
}

/** Looks at the first 100 bytes, so that a foreign, newer or truncated file is refused before SQLite opens it. */
function inspectHeader(path: string): void {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    throw translateError(error, dirname(path))
  }
  try {
    const { size, mode, uid } = fstatSync(file)
    if ((mode & 0o077) !== 0 && uid === process.getuid?.()) {
      throw new CraikError('key_exposed', 'the database can be read or written by other users', {
        hint: `make it private:  chmod 600 ${path}`,
      })
    }
    if (size === 0) return
    const header = Buffer.alloc(100)
    const read = readSync(file, header, 0, 100, 0)
    if (read < 100 || header.toString('latin1', 0, 16) !== 'SQLite format 3\0') {
      throw new CraikError('store_damaged', 'state/craik.sqlite3 is not a database')
    }
    if (header.readUInt32BE(68) !== APPLICATION_ID && header.readUInt32BE(68) !== 0) {
      throw new CraikError('store_damaged', 'state/craik.sqlite3 is a database of another program')
    }
    refuseNewer(header.readUInt32BE(60))
    const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16)
    const pending = existsSync(`${path}-wal`) && statSync(`${path}-wal`).size > 0
    if (!pending && size < header.readUInt32BE(28) * pageSize) {
      throw new CraikError('store_damaged', 'state/craik.sqlite3 is truncated')
    }
  } finally {
    closeSync(file)
  }
}

function refuseNewer(version: number): void {
  if (version <= SCHEMA_VERSION) return
  throw new CraikError(
    'store_newer',
    `the database has schema version ${version}; this craik knows versions up to ${SCHEMA_VERSION}`,
  )
}

function migrate(database: DatabaseSync): void {
  const current = versionOf(database)
  refuseNewer(current)
  if (current === SCHEMA_VERSION) return
  database.exec('PRAGMA journal_mode = WAL')
  database.exec('BEGIN IMMEDIATE')
  try {
    // Another process may have migrated while this one waited for the lock.
    const version = versionOf(database)
    database.exec(`
      CREATE TABLE IF NOT EXISTS schema_versions (
        version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL
      ) STRICT`)
    for (const step of MIGRATIONS.filter((migration) => migration.version > version)) {
      database.exec(step.sql)
      database
        .prepare('INSERT INTO schema_versions (version, name, applied_at) VALUES (?, ?, ?)')
        .run(step.version, step.name, new Date().toISOString())
    }
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}`)
    database.exec('COMMIT')
  } catch (error) {
    database.exec('ROLLBACK')
    throw error
  }
}

function versionOf(database: DatabaseSync): number {
  return (database.prepare('PRAGMA user_version').get() as { user_version: number }).user_version
}

/** Switching to WAL and recovering after a crash answer "busy" at once, whatever the timeout: so try again. */
async function withPatience<T>(home: Home, attempt: () => T): Promise<T> {
  const deadline = performance.now() + BUSY_TIMEOUT_MS
  for (;;) {
    try {
      return attempt()
    } catch (error) {
      const translated = translateError(error, home.state)
      if (translated.code !== 'store_busy' || performance.now() > deadline) throw translated
      await sleep(5 + Math.random() * 20)
    }
  }
}

const SQLITE_PERM = 3
const SQLITE_BUSY = 5
const SQLITE_LOCKED = 6
const SQLITE_READONLY = 8
const SQLITE_IOERR = 10
const SQLITE_CORRUPT = 11
const SQLITE_FULL = 13
const SQLITE_CANTOPEN = 14
const SQLITE_CONSTRAINT = 19
const SQLITE_NOTADB = 26

/** Foreign errors, in our words. `folder` is where free space is looked up. */
export function translateError(error: unknown, folder: string): CraikError {
  if (error instanceof CraikError) return error
  const { errcode, code, message } = error as { errcode?: number; code?: string; message: string }
  if (code === 'ENOSPC' || code === 'EDQUOT') return diskFull(error)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === 'EISDIR' || code === 'ENOTDIR') {
    return new CraikError('home_unwritable', `the store cannot be opened (${code})`, { cause: error })
  }
  switch (errcode === undefined ? undefined : errcode & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return new CraikError('store_busy', 'the store is in use by another process', { cause: error })
    case SQLITE_FULL:
      return diskFull(error)
    case SQLITE_IOERR:
      return isFull(folder)
        ? diskFull(error)
        : new CraikError('home_unwritable', `reading or writing the store failed: ${message}`, {
            cause: error,
          })
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return isFull(folder)
        ? diskFull(error)
        : new CraikError('home_unwritable', `the store cannot be written: ${message}`, { cause: error })
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return new CraikError('store_damaged', `state/craik.sqlite3 is damaged: ${message}`, { cause: error })
    case SQLITE_CONSTRAINT:
      return new CraikError('conflict', `the store refused a record: ${message}`, { cause: error })
    default:
      return new CraikError('internal', `the store failed: ${message}`, { cause: error })
  }
}

function diskFull(cause: unknown): CraikError {
  return new CraikError('disk_full', 'the disk is full: nothing was written and nothing was done', { cause })
}

function isFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize < 1_048_576
  } catch {
    return false
  }
}
