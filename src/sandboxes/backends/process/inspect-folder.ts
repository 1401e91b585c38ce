/** Where a path leads, and to which folder: one look, so that both answers are of the same folder. */
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  realpathSync,
} from 'node:fs'

export interface SeenFolder {
  /** Its path without any link in it. */
  readonly path: string
  readonly stats: BigIntStats
}

/** Linux's own, which Node does not name: holds a folder that may not even be read. */
const O_PATH = 0o10000000

/** Undefined when there is no folder. Follows links. */
export function inspectFolder(path: string): SeenFolder | undefined {
  try {
    return process.platform === 'linux' ? readFolder(path) : readFolderTwice(path)
  } catch {
    return undefined
  }
}

/** As `device:inode`: tells a folder from another one put in its place. */
export function folderIdentity({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${dev}:${ino}`
}

/** What is held cannot be exchanged, and the kernel says where it is. */
function readFolder(path: string): SeenFolder {
  const descriptor = openSync(path, O_PATH | constants.O_DIRECTORY)
  try {
    const stats = fstatSync(descriptor, { bigint: true })
    return { path: readlinkSync(`/proc/self/fd/${descriptor}`), stats }
  } finally {
    closeSync(descriptor)
  }
}

function readFolderTwice(path: string): SeenFolder | undefined {
  const real = realpathSync(path)
  const stats = lstatSync(real, { bigint: true })
  return stats.isDirectory() && realpathSync(path) === real ? { path: real, stats } : undefined
}
