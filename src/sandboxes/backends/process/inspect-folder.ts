/** Reads where a path leads and which folder that is, in one step, so that both answers are about the same folder. */
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

export interface InspectedFolder {
  /** The folder's path without any symbolic link. */
  readonly path: string
  readonly stats: BigIntStats
}

/** Linux's constant, which Node does not export. It opens even a folder that this process may not read. */
const O_PATH = 0o10000000

/** Returns `undefined` when there is no folder. Follows links. */
export function inspectFolder(path: string): InspectedFolder | undefined {
  try {
    return process.platform === 'linux' ? readFolder(path) : readFolderTwice(path)
  } catch {
    return undefined
  }
}

/** Returns `device:inode`, which differs for a folder that replaced this one. */
export function folderIdentity({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string {
  return `${dev}:${ino}`
}

/** An open folder cannot be replaced, and the kernel reports its path. */
function readFolder(path: string): InspectedFolder {
  const descriptor = openSync(path, O_PATH | constants.O_DIRECTORY)
  try {
    const stats = fstatSync(descriptor, { bigint: true })
    return { path: readlinkSync(`/proc/self/fd/${descriptor}`), stats }
  } finally {
    closeSync(descriptor)
  }
}

function readFolderTwice(path: string): InspectedFolder | undefined {
  const real = realpathSync(path)
  const stats = lstatSync(real, { bigint: true })
  return stats.isDirectory() && realpathSync(path) === real ? { path: real, stats } : undefined
}
