/** Allows one supervisor per home, with a lock that ends with the process. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type FileLock, takeFileLock } from '../lib/file-lock.ts'
import { SupervisorTimeouts } from './supervisor-timeouts.ts'

/** Many processes may wait for a supervisor that starts, and each attempt slows it down. */
const FIRST_POLL_MS = 20
const LAST_POLL_MS = 200

/**
 * Returns `undefined` when another process holds the lock. The lock lasts as long as the caller keeps the returned
 * object.
 */
export function takeLock(path: string): FileLock | undefined {
  return takeFileLock(path, 'supervisor’s lock')
}

export interface SupervisorLockWait {
  /** How long to wait for the same owner. */
  readonly waitMs: number
  /** Returns a text that identifies the lock's owner. When the owner changes, the time starts again. */
  readonly holder: () => string | undefined
  /** Returns whether there is nothing left to wait for. */
  readonly giveUp: () => Promise<boolean>
  readonly signal: AbortSignal
}

/**
 * Waits for a supervisor that is shutting down. Returns `undefined` when `giveUp` resolves with true, when it takes too
 * long, or on abort.
 */
export async function waitForLock(path: string, wait: SupervisorLockWait): Promise<FileLock | undefined> {
  const { waitMs, holder, giveUp, signal } = wait
  const timeouts = new SupervisorTimeouts()
  for (let pollMs = FIRST_POLL_MS; !signal.aborted; pollMs = Math.min(LAST_POLL_MS, pollMs * 2)) {
    const lock = takeLock(path)
    if (lock !== undefined) return lock
    if (await giveUp()) return undefined
    timeouts.waitFor(holder())
    if (timeouts.sameProcessMs > waitMs) return undefined
    await sleep(pollMs, undefined, { signal }).catch(() => {})
  }
  return undefined
}
