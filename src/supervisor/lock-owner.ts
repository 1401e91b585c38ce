/**
 * Records which process owns a home, in a file that this process writes. Errors show it to users, and waiting processes
 * use it to detect a new owner.
 */
import { currentOwner, ownerOf } from '../lib/owner.ts'
import { readPrivateFile, writePrivateFile } from '../lib/private-files.ts'
import type { Build } from './build-version.ts'
import type { RunFolder } from './run-folder.ts'

const MAX_BYTES = 4096

interface RecordedOwner {
  readonly pid: number
  /** The start time as the system counts it. Another process with the same pid has a different one. */
  readonly process_start: string
}

/** The lock's owner calls this at once, so that waiting processes see that the owner changed. */
export function recordLockOwner(folder: RunFolder, { version, build }: Build, startedAtMs: number): void {
  const { pid, startedAt } = currentOwner()
  const noted = { pid, process_start: startedAt, started_at_ms: startedAtMs, version, build }
  writePrivateFile(folder.info, `${JSON.stringify(noted)}\n`)
}

/**
 * Returns a text that identifies the process that recorded itself last. Returns `undefined` when none exists, or it
 * has exited. Callers read this many times a second, so another process that now has the pid counts as the same one.
 */
export function readLockOwner(folder: RunFolder): string | undefined {
  const noted = read(folder)
  return noted && processExists(noted.pid) ? `${noted.pid} ${noted.process_start}` : undefined
}

/** Returns the pid of the recorded owner if that process still runs. It is for messages to the user. */
export function runningLockOwner(folder: RunFolder): number | undefined {
  const noted = read(folder)
  return noted && ownerOf(noted.pid)?.startedAt === noted.process_start ? noted.pid : undefined
}

function processExists(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Does not use the library that parses all other input, because every command that finds no supervisor runs this. */
function read(folder: RunFolder): RecordedOwner | undefined {
  try {
    const noted = JSON.parse(
      readPrivateFile(folder.info, MAX_BYTES).toString(),
    ) as Partial<RecordedOwner> | null
    const isOne =
      Number.isSafeInteger(noted?.pid) && noted!.pid! > 0 && typeof noted?.process_start === 'string'
    return isOne ? (noted as RecordedOwner) : undefined
  } catch {
    return undefined
  }
}
