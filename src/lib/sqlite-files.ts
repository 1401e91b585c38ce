/** The files that SQLite opens with a database. */
import { lstatSync } from 'node:fs'

/**
 * Returns which of a database's files is not a regular file, such as `-journal`, or `undefined`. Opening a pipe would
 * wait forever for its other end, without reacting to signals. `path` must not lead through a link, because SQLite puts
 * the other files beside the target of a link.
 */
export function findIrregularFile(path: string): string | undefined {
  return ['', '-journal', '-wal', '-shm'].find(
    (suffix) => lstatSync(path + suffix, { throwIfNoEntry: false })?.isFile() === false,
  )
}
