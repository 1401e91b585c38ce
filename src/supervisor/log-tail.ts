/** Reads the end of the supervisor's log, and follows new lines. */
import { closeSync, fstatSync, readSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { setTimeout as sleep } from 'node:timers/promises'
import { openLogToRead } from './supervisor-log.ts'

const TAIL_BYTES = 256 * 1024
const POLL_MS = 200

/** Returns the last lines, or none when there is no log. */
export function lastLines(path: string, count: number): readonly string[] {
  using file = LogFile.open(path)
  return file?.last(count) ?? []
}

/**
 * Yields the last lines, and then new lines as they are written, until `until` aborts. Continues in the new file when
 * the log is rotated.
 */
export async function* followLines(path: string, count: number, until: AbortSignal): AsyncGenerator<string> {
  let file = LogFile.open(path)
  try {
    yield* file?.last(count) ?? []
    while (!until.aborted) {
      let next = LogFile.open(path)
      try {
        // Nothing is written to a file after the rotation, so this also reads the rest of the old one.
        if (file !== undefined) yield* file.newLines()
        if (next !== undefined && next.inode !== file?.inode) {
          const old = file
          file = next
          next = old
          yield* file.newLines()
        }
      } finally {
        next?.[Symbol.dispose]()
      }
      await sleep(POLL_MS, undefined, { signal: until }).catch(() => {})
    }
  } finally {
    file?.[Symbol.dispose]()
  }
}

/** One file of the log. It stays open, so that it can be read to its end after it was renamed. */
class LogFile implements Disposable {
  readonly inode: number
  readonly #descriptor: number
  #at = 0
  #pending = ''
  #decoder = new StringDecoder('utf8')

  private constructor(descriptor: number) {
    this.#descriptor = descriptor
    this.inode = fstatSync(descriptor).ino
  }

  static open(path: string): LogFile | undefined {
    const descriptor = openLogToRead(path)
    return descriptor === undefined ? undefined : new LogFile(descriptor)
  }

  /** Returns the last complete lines. `newLines` continues after them. */
  last(count: number): readonly string[] {
    const from = Math.max(0, fstatSync(this.#descriptor).size - TAIL_BYTES)
    this.#at = from
    // The first line may be incomplete.
    const lines = [...this.newLines()].slice(from > 0 ? 1 : 0)
    return count === 0 ? [] : lines.slice(-count)
  }

  *newLines(): Generator<string> {
    const { size } = fstatSync(this.#descriptor)
    if (size < this.#at) {
      this.#at = 0
      this.#pending = ''
      this.#decoder = new StringDecoder('utf8')
    }
    while (this.#at < size) {
      const buffer = Buffer.alloc(Math.min(size - this.#at, TAIL_BYTES))
      const length = readSync(this.#descriptor, buffer, 0, buffer.length, this.#at)
      if (length === 0) return
      this.#at += length
      const lines = (this.#pending + this.#decoder.write(buffer.subarray(0, length))).split('\n')
      this.#pending = lines.pop()!
      yield* lines
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor)
  }
}
