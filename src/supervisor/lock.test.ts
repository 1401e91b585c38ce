import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type SupervisorLockWait, takeLock, waitForLock } from './lock.ts'

let folder: string
let path: string
let held: DatabaseSync | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-lock-'))
  path = join(folder, 'lock')
})
afterEach(() => {
  held?.close()
  held = undefined
  rmSync(folder, { recursive: true, force: true })
})

/** Locks the file with another connection, which SQLite treats like another process. */
function hold(): void {
  takeLock(path)!.release()
  held = new DatabaseSync(path)
  held.exec('BEGIN EXCLUSIVE')
}

function waiting(changes: Partial<SupervisorLockWait>): Promise<ReturnType<typeof takeLock>> {
  const signal = new AbortController().signal
  return waitForLock(path, {
    waitMs: 100,
    holder: () => 'one',
    giveUp: async () => false,
    signal,
    ...changes,
  })
}

describe('waiting for the lock', () => {
  it('ends at once when no process holds it', async () => {
    const lock = await waiting({ waitMs: 0 })
    expect(lock).toBeDefined()
    lock!.release()
  })

  it('ends without the lock when the same owner holds it for too long', async () => {
    hold()
    expect(await waiting({})).toBeUndefined()
  })

  it('continues while the owner keeps changing, and gets the lock in the end', async () => {
    hold()
    let looks = 0
    const lock = await waiting({
      waitMs: 0,
      holder: () => {
        looks += 1
        if (looks === 6) held!.close()
        return `holder ${looks}`
      },
    })
    held = undefined
    expect(lock).toBeDefined()
    lock!.release()
  })

  it('ends when there is nothing left to wait for, and when it is aborted', async () => {
    hold()
    expect(await waiting({ waitMs: 3_600_000, giveUp: async () => true })).toBeUndefined()
    const reported = new AbortController()
    const ended = waiting({ waitMs: 3_600_000, signal: reported.signal })
    reported.abort()
    expect(await ended).toBeUndefined()
  })
})
