/**
 * Checks a database before it is opened for writing. Opening and closing can write, so a refusal must come first.
 * Nothing here opens the file without SQLite, because closing it would drop the locks that SQLite holds on it in this
 * process: https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled
 */
import { closeSync, openSync, readSync, realpathSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { CraikError } from '../../errors.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import { findIrregularFile } from '../../lib/sqlite-files.ts'
import { SCHEMA_VERSION } from '../migrations.ts'
import { requireOwnSchema } from './own-schema.ts'

/** `CRAI` in the header distinguishes Craik's file from other SQLite databases. */
export const APPLICATION_ID = 0x43524149
const SQLITE_CORRUPT = 11

/** Options for a file that another user may have created. */
export const STRICT = {
  allowExtension: false,
  defensive: true,
  enableDoubleQuotedStringLiterals: false,
} as const

/** Refuses an exposed, foreign, newer, empty or truncated database. It only reads. */
export function inspectDatabase(path: string, timeoutMs: number): void {
  const stats = statSync(path)
  if (!stats.isFile()) throw new CraikError('store_damaged', `${path} is not a file`)
  if ((stats.mode & 0o077) !== 0 && stats.uid === process.getuid?.()) {
    throw new CraikError('key_exposed', 'the database can be read or written by other users', {
      hint: `make it private:  chmod 600 ${quoteArgument(path)}`,
    })
  }
  if (stats.size === 0) throw new CraikError('store_damaged', `${path} is empty`)
  // SQLite's other files are next to the target of a link.
  const irregular = findIrregularFile(realpathSync(path))
  if (irregular !== undefined) throw new CraikError('store_damaged', `${path}${irregular} is not a file`)
  const pending = hasPendingWal(path)
  inspectFile(path, pending)
  if (pending) inspectLogged(path, timeoutMs)
}

/** Must be called before any table is read. It reads one version, because a migration can happen between two reads. */
export function inspectSchema(database: DatabaseSync): void {
  // Without this, the views, triggers and defaults of a foreign schema could call functions with effects outside the
  // database.
  database.exec('PRAGMA trusted_schema = OFF; BEGIN')
  try {
    const version = versionOf(database)
    refuseNewer(version)
    requireOwnSchema(database, version)
  } finally {
    if (database.isTransaction) database.exec('ROLLBACK')
  }
}

export function refuseNewer(version: number): void {
  if (version <= SCHEMA_VERSION) return
  throw new CraikError(
    'store_newer',
    `the database has schema version ${version}; this craik supports versions up to ${SCHEMA_VERSION}`,
  )
}

export function versionOf(database: DatabaseSync): number {
  return pragma(database, 'user_version')
}

/** Returns whether there is a write-ahead log that is not empty. */
export function hasPendingWal(path: string): boolean {
  return (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0
}

/** Inspects the file alone: without its log and its locks, and without creating a file next to it. */
function inspectFile(path: string, pending: boolean): void {
  const url = pathToFileURL(path)
  url.searchParams.set('immutable', '1')
  using database = new DatabaseSync(url, { ...STRICT, readOnly: true })
  try {
    if (pragma(database, 'application_id') !== APPLICATION_ID) {
      throw new CraikError('store_damaged', `${path} belongs to another program`)
    }
    // With a log, the file alone can be between two versions.
    if (pending) refuseNewer(versionOf(database))
    else inspectSchema(database)
  } catch (error) {
    // A killed checkpoint leaves a file that is too short without its log, but complete with it.
    const tooShort = ((error as { errcode?: number }).errcode ?? 0) & 0xff
    if (!pending || tooShort !== SQLITE_CORRUPT) throw error
  }
}

/**
 * Inspects the file together with its log. It reads the file's size last, because the log restarts only after the file
 * has grown.
 */
function inspectLogged(path: string, timeoutMs: number): void {
  using database = new DatabaseSync(path, { ...STRICT, readOnly: true, timeout: timeoutMs })
  inspectSchema(database)
  const pageSize = pragma(database, 'page_size')
  const pages = pragma(database, 'page_count')
  if (statSync(path).size >= pages * pageSize) return
  const logged = readLoggedPages(`${path}-wal`, pageSize)
  for (let page = Math.floor(statSync(path).size / pageSize) + 1; page <= pages; page++) {
    if (!logged.has(page)) throw new CraikError('store_damaged', `${path} is truncated`)
  }
}

/** Returns the page numbers in a write-ahead log: https://sqlite.org/fileformat2.html#walformat */
function readLoggedPages(path: string, pageSize: number): ReadonlySet<number> {
  const pages = new Set<number>()
  const file = openSync(path, 'r')
  try {
    const header = Buffer.alloc(32)
    const frame = Buffer.alloc(24)
    readSync(file, header, 0, 32, 0)
    // Frames with other salts are left over from before the log restarted.
    const isCurrent = () => frame.subarray(8, 16).equals(header.subarray(16, 24))
    for (let at = 32; readSync(file, frame, 0, 24, at) === 24 && isCurrent(); at += 24 + pageSize) {
      pages.add(frame.readUInt32BE(0))
    }
  } finally {
    closeSync(file)
  }
  return pages
}

function pragma(database: DatabaseSync, name: string): number {
  return database.prepare(`PRAGMA ${name}`).get()![name] as number
}
