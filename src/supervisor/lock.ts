/**
 * One supervisor per home. The lock is an exclusive transaction on a file of its own: the kernel holds it for the
 * process, and gives it up when the process is gone, however it went.
 */
import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPrivateFile } from '../lib/private-files.ts'
import { Patience } from './patience.ts'

export interface SupervisorLock {
  /** Idempotent. */
  release(): void
}

const SQLITE_BUSY = 5
/** Many may wait for one that starts, and what they do meanwhile slows it down. */
const FIRST_POLL_MS = 20
const LAST_POLL_MS = 200

/**
 * Undefined when another process holds it. It is held for as long as what is returned is kept. Nothing else in this
 * process may open and close the file: that would give the lock up, as locks of POSIX do.
 */
export function takeLock(path: string): SupervisorLock | undefined {
  // Asked for again and again, and making sure of a file waits for the disk.
  if (!existsSync(path)) createPrivateFile(path, '', 'supervisor’s lock')
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

export interface LockWait {
  /** How long one and the same holder is waited for. */
  readonly waitMs: number
  /** What tells the one that holds it from others; another one starts the time anew. */
  readonly holder: () => string | undefined
  /** Whether there is nothing left to wait for. */
  readonly giveUp: () => Promise<boolean>
  readonly signal: AbortSignal
}

/** Waits for one that is leaving. Undefined when that is given up, takes too long, or is aborted. */
export async function waitForLock(path: string, wait: LockWait): Promise<SupervisorLock | undefined> {
  const { waitMs, holder, giveUp, signal } = wait
  const patience = new Patience()
  for (let pollMs = FIRST_POLL_MS; !signal.aborted; pollMs = Math.min(LAST_POLL_MS, pollMs * 2)) {
    const lock = takeLock(path)
    if (lock !== undefined) return lock
    if (await giveUp()) return undefined
    patience.waitFor(holder())
    if (patience.withThisOneMs > waitMs) return undefined
    await sleep(pollMs, undefined, { signal }).catch(() => {})
  }
  return undefined
}
