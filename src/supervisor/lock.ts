/**
 * One supervisor per home. The lock is an exclusive transaction on a file of its own: the kernel holds it for the
 * process, and gives it up when the process is gone, however it went.
 */
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPrivateFile } from '../lib/private-files.ts'

export interface SupervisorLock {
  /** Idempotent. */
  release(): void
}

const SQLITE_BUSY = 5
const POLL_MS = 20

/**
 * Undefined when another process holds it. It is held for as long as what is returned is kept. Nothing else in this process may open and close the file: that would give
 * the lock up, as locks of POSIX do.
 */
export function takeLock(path: string): SupervisorLock | undefined {
  createPrivateFile(path, '', 'supervisor’s lock')
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

/** Waits for one that is leaving. Undefined when `giveUp` says so, or the time is over. */
export async function waitForLock(
  path: string,
  waitMs: number,
  giveUp: () => Promise<boolean>,
): Promise<SupervisorLock | undefined> {
  const until = performance.now() + waitMs
  for (;;) {
    const lock = takeLock(path)
    if (lock !== undefined) return lock
    if (performance.now() > until || (await giveUp())) return undefined
    await sleep(POLL_MS)
  }
}
