/** Who holds a home, as it wrote down itself: for people, and for those who wait to see that it is another one now. */
import { currentOwner, ownerOf } from '../lib/owner.ts'
import { readPrivateFile, writePrivateFile } from '../lib/private-files.ts'
import type { Build } from './build-version.ts'
import type { RunFolder } from './run-folder.ts'

const MAX_BYTES = 4096

interface Noted {
  readonly pid: number
  /** As the system counts it: another process with the same number has another one. */
  readonly process_start: string
}

/** By whoever holds the lock, at once: those who wait for it then see that it went on. */
export function recordLockOwner(folder: RunFolder, { version, build }: Build, startedAtMs: number): void {
  const { pid, startedAt } = currentOwner()
  const noted = { pid, process_start: startedAt, started_at_ms: startedAtMs, version, build }
  writePrivateFile(folder.info, `${JSON.stringify(noted)}\n`)
}

/**
 * What tells the one that noted itself last from any other; undefined when none did, or it is gone. Asked for many times
 * a second, so a process that has its number now passes for it.
 */
export function readLockOwner(folder: RunFolder): string | undefined {
  const noted = read(folder)
  return noted && isThere(noted.pid) ? `${noted.pid} ${noted.process_start}` : undefined
}

/** The process that says it holds the home, when it still runs: to be shown to a person. */
export function runningLockOwner(folder: RunFolder): number | undefined {
  const noted = read(folder)
  return noted && ownerOf(noted.pid)?.startedAt === noted.process_start ? noted.pid : undefined
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Without the library that reads all other input: every command that finds no supervisor comes through here. */
function read(folder: RunFolder): Noted | undefined {
  try {
    const noted = JSON.parse(readPrivateFile(folder.info, MAX_BYTES).toString()) as Partial<Noted> | null
    const isOne =
      Number.isSafeInteger(noted?.pid) && noted!.pid! > 0 && typeof noted?.process_start === 'string'
    return isOne ? (noted as Noted) : undefined
  } catch {
    return undefined
  }
}
