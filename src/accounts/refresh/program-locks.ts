/** The lock that a program itself takes while it refreshes: a folder that the holder creates and touches regularly. */
import { mkdir, rmdir, stat, utimes } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProgramLock } from '../probe-result.ts'

const POLL_MS = 40
const HEARTBEAT_MS = 1_000

export interface ProgramLocks {
  release(): Promise<void>
}

/**
 * Returns `undefined` when the locks could not be taken before `until`. A lock with a missing parent folder is skipped.
 */
export async function takeProgramLocks(
  locks: readonly ProgramLock[],
  until: AbortSignal,
): Promise<ProgramLocks | undefined> {
  const held: string[] = []
  const release = async () => {
    for (const path of held.splice(0).reverse()) await rmdir(path).catch(() => {})
  }
  for (const lock of locks) {
    const taken = await take(lock, until)
    if (taken === 'busy') {
      await release()
      return undefined
    }
    if (taken === 'taken') held.push(lock.path)
  }
  const beat = setInterval(() => {
    const now = new Date()
    for (const path of held) void utimes(path, now, now).catch(() => {})
  }, HEARTBEAT_MS)
  beat.unref()
  return {
    async release() {
      clearInterval(beat)
      await release()
    },
  }
}

async function take(
  { path, staleMs }: ProgramLock,
  until: AbortSignal,
): Promise<'taken' | 'busy' | 'nowhere'> {
  for (;;) {
    try {
      await mkdir(path, { mode: 0o700 })
      return 'taken'
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'EEXIST') return 'nowhere'
    }
    if (await isStale(path, staleMs)) await rmdir(path).catch(() => {})
    if (until.aborted) return 'busy'
    await sleep(POLL_MS, undefined, { signal: until }).catch(() => {})
  }
}

/** A lock is stale by its age. It is also stale if its mtime lies in the future, because the clock was set back. */
async function isStale(path: string, staleMs: number): Promise<boolean> {
  try {
    return Math.abs(Date.now() - (await stat(path)).mtimeMs) > staleMs
  } catch {
    return false
  }
}
