/** One supervisor per home, by a lock that ends with the process. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type FileLock, takeFileLock } from '../lib/file-lock.ts'
import { SupervisorTimeouts } from './supervisor-timeouts.ts'

/** Many may wait for one that starts, and what they do meanwhile slows it down. */
const FIRST_POLL_MS = 20
const LAST_POLL_MS = 200

/** Undefined when another process holds it. It is held for as long as what is returned is kept. */
export function takeLock(path: string): FileLock | undefined {
  return takeFileLock(path, 'supervisor’s lock')
}

export interface SupervisorLockWait {
  /** How long one and the same holder is waited for. */
  readonly waitMs: number
  /** What tells the one that holds it from others; another one starts the time anew. */
  readonly holder: () => string | undefined
  /** Whether there is nothing left to wait for. */
  readonly giveUp: () => Promise<boolean>
  readonly signal: AbortSignal
}

/** Waits for one that is leaving. Undefined when that is given up, takes too long, or is aborted. */
export async function waitForLock(path: string, wait: SupervisorLockWait): Promise<FileLock | undefined> {
  const { waitMs, holder, giveUp, signal } = wait
  const timeouts = new SupervisorTimeouts()
  for (let pollMs = FIRST_POLL_MS; !signal.aborted; pollMs = Math.min(LAST_POLL_MS, pollMs * 2)) {
    const lock = takeLock(path)
    if (lock !== undefined) return lock
    if (await giveUp()) return undefined
    timeouts.waitFor(holder())
    if (timeouts.withThisOneMs > waitMs) return undefined
    await sleep(pollMs, undefined, { signal }).catch(() => {})
  }
  return undefined
}
