/** Reads the end of the supervisor's log, and follows new lines. */
import { closeSync, fstatSync, readSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openLogToRead } from './supervisor-log.ts'

const TAIL_BYTES = 256 * 1024
const POLL_MS = 200

/** Returns the last lines, or none when there is no log. */
export function lastLines(path: string, count: number): readonly string[] {
  const file = openLogToRead(path)
  if (file === undefined) return []
  try {
    const { size } = fstatSync(file)
    const from = Math.max(0, size - TAIL_BYTES)
    const lines = read(file, from, size).toString().split('\n')
    // The first line may be incomplete.
    return lines.slice(from > 0 ? 1 : 0, -1).slice(-count)
  } finally {
    closeSync(file)
  }
}

/** Yields lines as they are written, until `until` aborts. Continues in the new file when the log is rotated. */
export async function* newLines(path: string, until: AbortSignal): AsyncGenerator<string> {
  let inode: number | undefined
  let at = 0
  let pending = ''
  let first = true
  while (!until.aborted) {
    const file = openLogToRead(path)
    if (file !== undefined) {
      try {
        const { ino, size } = fstatSync(file)
        if (ino !== inode || size < at) {
          inode = ino
          at = first ? size : 0
          pending = ''
        }
        first = false
        while (at < size) {
          const chunk = read(file, at, Math.min(size, at + TAIL_BYTES))
          if (chunk.length === 0) break
          at += chunk.length
          const lines = (pending + chunk.toString()).split('\n')
          pending = lines.pop()!
          yield* lines
        }
      } finally {
        closeSync(file)
      }
    }
    await sleep(POLL_MS, undefined, { signal: until }).catch(() => {})
  }
}

function read(file: number, from: number, to: number): Buffer {
  const buffer = Buffer.alloc(to - from)
  return buffer.subarray(0, readSync(file, buffer, 0, buffer.length, from))
}
