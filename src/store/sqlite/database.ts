/** Opens the database: it must be private and Craik's own. It is migrated, or refused without any change. */
import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, linkSync, openSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import type { Home } from '../home.ts'
import { MIGRATIONS, SCHEMA_VERSION, VERSIONS_TABLE } from '../migrations.ts'
import {
  APPLICATION_ID,
  hasPendingWal,
  inspectDatabase,
  inspectSchema,
  refuseNewer,
  STRICT,
  versionOf,
} from './inspect-database.ts'

/** How long a write waits for another process before it reports that the store is busy. */
const BUSY_TIMEOUT_MS = 30_000

/** Opens the home's database. Creates or migrates it when needed. */
export async function openDatabase(home: Home): Promise<DatabaseSync> {
  ensurePrivateFolder(home.root, 'home folder')
  ensurePrivateFolder(home.state, 'state folder')
  return withRetry(home, () => {
    createDatabase(home.database)
    inspectDatabase(home.database, BUSY_TIMEOUT_MS)
    const database = new DatabaseSync(home.database, { ...STRICT, timeout: BUSY_TIMEOUT_MS })
    try {
      // Inspects it again, because opening can change it: SQLite applies a journal, or another process wrote in the
      // meantime.
      inspectSchema(database)
      migrate(database)
      // FULL: an acknowledged commit survives a power loss. Recursive: replacing a row removes the old one, and the
      // triggers must refuse that like any other removal.
      database.exec(`PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON`)
      return database
    } catch (error) {
      database.close()
      throw error
    }
  })
}

/** Creates the file completely and private, or not at all, so that an empty file can only be a damaged one. */
function createDatabase(path: string): void {
  // Checked before the database, because a process that creates one now also starts a write-ahead log.
  const pending = hasPendingWal(path)
  if (existsSync(path)) return
  if (pending) {
    throw new CraikError('store_damaged', `${path} is missing, but its -wal file exists`, {
      hint: 'restore the database, or move its -wal and -shm aside to start with a new receipt log',
    })
  }
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`
  try {
    closeSync(openSync(temporary, 'wx', 0o600))
    const database = new DatabaseSync(temporary)
    try {
      migrate(database)
    } finally {
      database.close()
    }
    linkSync(temporary, path)
  } catch (error) {
    // Another process was faster, and its database is just as good.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    for (const suffix of ['', '-wal', '-shm']) rmSync(temporary + suffix, { force: true })
  }
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
    database.exec(VERSIONS_TABLE)
    for (const step of MIGRATIONS.filter((migration) => migration.version > version)) {
      database.exec(step.sql)
      database
        .prepare('INSERT INTO schema_versions (version, name, applied_at) VALUES (?, ?, ?)')
        .run(step.version, step.name, new Date().toISOString())
    }
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}`)
    database.exec('COMMIT')
  } catch (error) {
    // When the disk is full, SQLite has already rolled back the transaction.
    if (database.isTransaction) database.exec('ROLLBACK')
    throw error
  }
}

/**
 * Switching to WAL mode and recovering after a crash fail with "busy" at once, whatever the timeout. A file can also
 * look damaged while another process writes a checkpoint. Both are worth a retry.
 */
async function withRetry<T>(home: Home, attempt: () => T): Promise<T> {
  const deadline = performance.now() + BUSY_TIMEOUT_MS
  let damaged = 0
  for (;;) {
    try {
      return attempt()
    } catch (error) {
      const translated = translateError(error, home.state)
      const again =
        (translated.code === 'store_busy' && performance.now() < deadline) ||
        (translated.code === 'store_damaged' && ++damaged < 4)
      if (!again) throw translated
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

/** Translates SQLite and file errors to Craik's errors. `folder` is the folder whose free space is checked. */
export function translateError(error: unknown, folder: string): CraikError {
  if (error instanceof CraikError) return error
  const path = join(folder, 'craik.sqlite3')
  const { errcode, code, message } = error as { errcode?: number; code?: string; message: string }
  if (code === 'ENOSPC' || code === 'EDQUOT') return diskFull(error, path)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === 'EISDIR' || code === 'ENOTDIR') {
    return new CraikError('home_unwritable', `cannot open the database ${path} (${code})`, {
      cause: error,
    })
  }
  switch (errcode === undefined ? undefined : errcode & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return new CraikError('store_busy', `another process locked the database ${path}`, {
        cause: error,
      })
    case SQLITE_FULL:
      return diskFull(error, path)
    case SQLITE_IOERR:
      return isFull(folder)
        ? diskFull(error, path)
        : new CraikError('home_unwritable', `cannot read or write the database ${path}: ${message}`, {
            hint: 'check the disk and its mount, then try again:  craik doctor',
            cause: error,
          })
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return isFull(folder)
        ? diskFull(error, path)
        : new CraikError('home_unwritable', `cannot write the database ${path}: ${message}`, {
            cause: error,
          })
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return new CraikError('store_damaged', `the database ${path} is damaged: ${message}`, {
        hint: 'try again; if this error returns, restore the file from a backup, or move it (with -wal, -shm and secrets/log.key) aside to start a new log',
        cause: error,
      })
    case SQLITE_CONSTRAINT:
      return new CraikError('conflict', `the database refused a record: ${message}`, {
        hint: 'try again; if this error returns, report it',
        cause: error,
      })
    default:
      return new CraikError('internal', `the database failed: ${message}`, { cause: error })
  }
}

function diskFull(cause: unknown, path: string): CraikError {
  return new CraikError('disk_full', `the disk is full: cannot write the database ${path}`, {
    cause,
  })
}

function isFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize < 1_048_576
  } catch {
    return false
  }
}
