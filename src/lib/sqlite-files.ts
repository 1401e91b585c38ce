/** The files that SQLite opens with a database. */
import { lstatSync } from 'node:fs'

/**
 * Which of a database's files is something else than a regular one, such as `-journal`; undefined: none is. Opening a pipe would
 * wait for its other end for ever, without answering signals. `path` leads through no link.
 */
export function irregularFile(path: string): string | undefined {
  return ['', '-journal', '-wal', '-shm'].find(
    (suffix) => lstatSync(path + suffix, { throwIfNoEntry: false })?.isFile() === false,
  )
}
