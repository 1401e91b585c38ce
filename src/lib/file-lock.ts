/**
 * A lock for one process at a time. It is an exclusive transaction on a file of its own. The kernel locks that file for
 * the process and unlocks it when the process ends for any reason.
 */
import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { CraikError } from '../errors.ts'
import { createPrivateFile } from './private-files.ts'
import { quoteArgument } from './shlex.ts'
import { findIrregularFile } from './sqlite-files.ts'

export interface FileLock {
  /** Idempotent. */
  release(): void
}

const SQLITE_BUSY = 5

/**
 * Returns `undefined` when the lock is taken. The lock lasts until `release`, or until the returned object is
 * collected. Nothing else in this process may open and close the file, because that would release the lock, as with all
 * POSIX locks.
 */
export function takeFileLock(path: string, label: string): FileLock | undefined {
  // Callers poll this function, and creating a file waits for the disk.
  if (!existsSync(path)) createPrivateFile(path, '', label)
  const irregular = findIrregularFile(path)
  if (irregular !== undefined)
    throw new CraikError('home_unwritable', `the ${label}${irregular} is not a file`, {
      hint: `remove it, then try again:  rm ${quoteArgument(path + irregular)}`,
    })
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if (((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY) return undefined
    throw error
  }
  let held = true
  return {
    release() {
      if (!held) return
      held = false
      database.close()
    },
  }
}
