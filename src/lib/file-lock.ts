/**
 * One process at a time. The lock is an exclusive transaction on a file of its own: the kernel holds it for the process,
 * and gives it up when the process is gone, however it went.
 */
import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { CraikError } from '../errors.ts'
import { createPrivateFile } from './private-files.ts'
import { quoteArgument } from './shlex.ts'
import { irregularFile } from './sqlite-files.ts'

export interface FileLock {
  /** Idempotent. */
  release(): void
}

const SQLITE_BUSY = 5

/**
 * Undefined when somebody else holds it. It is held for as long as what is returned is kept. Nothing else in this process
 * may open and close the file: that would give the lock up, as locks of POSIX do.
 */
export function takeFileLock(path: string, label: string): FileLock | undefined {
  // Asked for again and again, and making sure of a file waits for the disk.
  if (!existsSync(path)) createPrivateFile(path, '', label)
  const irregular = irregularFile(path)
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
