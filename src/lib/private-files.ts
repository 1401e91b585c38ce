/**
 * Files and folders that only their owner can read. They are checked before use, and created completely or not at all.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  type Stats,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { CraikError } from '../errors.ts'
import { quoteArgument } from './shlex.ts'

const OPEN_TO_OTHERS = 0o077

/**
 * Makes sure that a folder exists and is private. Creates missing folders with mode 0700, and only checks one that
 * exists. Refuses a link, a folder of another user, and one that group or others can use in any way.
 */
export function ensurePrivateFolder(path: string, label = basename(path)): void {
  // Without its trailing slash, a path to a link names the link and not its target.
  const folder = resolve(path)
  let stats: Stats
  try {
    if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) {
      makeFolders(folder)
    }
    stats = lstatSync(folder)
  } catch (error) {
    throw writeError(error, 'create', label)
  }
  if (stats.isSymbolicLink()) {
    throw new CraikError('key_exposed', `the ${label} is a symbolic link: its target could change`, {
      hint: `replace the link ${quoteArgument(folder)} with the folder itself`,
    })
  }
  if (!stats.isDirectory()) {
    throw new CraikError('home_unwritable', `the ${label} is not a folder`, {
      hint: `move ${quoteArgument(path)} out of the way, then try again`,
    })
  }
  requireOwnAndPrivate(stats, path, label, '700')
}

/** Returns whether a folder exists. Checks one that exists like `ensurePrivateFolder`, and creates none. */
export function hasPrivateFolder(path: string, label = basename(path)): boolean {
  if (lstatSync(resolve(path), { throwIfNoEntry: false }) === undefined) return false
  ensurePrivateFolder(path, label)
  return true
}

/**
 * Creates the folders one by one. Node's own recursion never returns when a file system answers that the parent does
 * not exist.
 */
function makeFolders(folder: string): void {
  const parent = dirname(folder)
  if (parent !== folder && lstatSync(parent, { throwIfNoEntry: false }) === undefined) makeFolders(parent)
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    // Another process may have created it first.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/**
 * Reads a file of at most `maxBytes`, provided that nobody else can read or write it. The checks use the open file, so
 * it cannot be replaced between check and use.
 */
export function readPrivateFile(path: string, maxBytes: number, label = basename(path)): Buffer {
  const file = openForReading(path, label)
  try {
    const stats = fstatSync(file)
    if (!stats.isFile()) {
      throw new CraikError('key_exposed', `the ${label} is not a regular file`, {
        hint: `replace ${quoteArgument(path)} with a regular file of mode 0600`,
      })
    }
    requireOwnAndPrivate(stats, path, label, '600')
    const content = readAtMost(file, maxBytes + 1)
    if (content.length > maxBytes) {
      throw new CraikError('key_unreadable', `the ${label} is longer than ${maxBytes} bytes`)
    }
    return content
  } catch (error) {
    if (error instanceof CraikError) throw error
    throw new CraikError('key_unreadable', `cannot read the ${label} (${codeOf(error)})`, { cause: error })
  } finally {
    closeSync(file)
  }
}

/**
 * Creates a file with mode 0600 unless it exists. Returns true when this call created it, and false when the name was
 * taken. A process that finds the file finds all of it, also when several processes create it at once.
 */
export function createPrivateFile(path: string, content: Buffer | string, label = basename(path)): boolean {
  return writeThroughTemporary(path, content, label, (temporary) => {
    try {
      linkSync(temporary, path)
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false
      throw error
    }
    return true
  })
}

/** Writes a file with mode 0600 and replaces whatever had that name. Readers see either the old or the new content. */
export function writePrivateFile(path: string, content: Buffer | string, label = basename(path)): void {
  writeThroughTemporary(path, content, label, (temporary) => renameSync(temporary, path))
}

/** Writes the content durably to a new file beside `path`, then lets `publish` give it its name. */
function writeThroughTemporary<T>(
  path: string,
  content: Buffer | string,
  label: string,
  publish: (temporary: string) => T,
): T {
  const folder = dirname(path)
  const temporary = join(folder, `.${basename(path)}.${randomBytes(8).toString('hex')}.tmp`)
  try {
    let published: T
    try {
      writeDurably(temporary, content)
      published = publish(temporary)
    } finally {
      removeIfExists(temporary)
    }
    syncFolder(folder)
    return published
  } catch (error) {
    throw writeError(error, 'write', label)
  }
}

function writeDurably(path: string, content: Buffer | string): void {
  const file = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
  try {
    // The umask may have removed permissions of the owner too.
    fchmodSync(file, 0o600)
    writeFileSync(file, content)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

function removeIfExists(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    fsyncSync(folder)
  } catch (error) {
    // Some file systems cannot sync folders, and report that with EINVAL.
    if (codeOf(error) !== 'EINVAL') throw error
  } finally {
    closeSync(folder)
  }
}

function openForReading(path: string, label: string): number {
  try {
    // The file is opened without blocking, because opening a named pipe would otherwise wait for a writer.
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ELOOP') {
      throw new CraikError('key_exposed', `the ${label} is a symbolic link: its target could change`, {
        hint: `replace the link ${quoteArgument(path)} with a regular file of mode 0600`,
        cause: error,
      })
    }
    const problem = code === 'ENOENT' ? `the ${label} does not exist` : `cannot open the ${label} (${code})`
    throw new CraikError('key_unreadable', problem, { cause: error })
  }
}

function readAtMost(file: number, maxBytes: number): Buffer {
  const buffer = Buffer.alloc(maxBytes)
  let length = 0
  while (length < maxBytes) {
    const count = readSync(file, buffer, length, maxBytes - length, null)
    if (count === 0) break
    length += count
  }
  return buffer.subarray(0, length)
}

function requireOwnAndPrivate(stats: Stats, path: string, label: string, mode: '600' | '700'): void {
  if (stats.uid !== process.geteuid?.()) {
    throw new CraikError('key_exposed', `the ${label} belongs to another user (uid ${stats.uid})`, {
      // A folder of another user belongs to that user with all its content. A single file may have been put there by
      // mistake.
      hint:
        mode === '700'
          ? 'run as that user, or set CRAIK_HOME to a folder of your own'
          : `run as that user, or as root: chown ${process.geteuid?.()} ${quoteArgument(path)}`,
    })
  }
  if ((stats.mode & OPEN_TO_OTHERS) !== 0) {
    const found = (stats.mode & 0o777).toString(8).padStart(4, '0')
    throw new CraikError('key_exposed', `the ${label} is open to other users (mode ${found})`, {
      hint: `chmod ${mode} ${quoteArgument(path)}`,
    })
  }
}

function writeError(error: unknown, doing: 'create' | 'write', label: string): CraikError {
  const code = codeOf(error)
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new CraikError('disk_full', `no space left to ${doing} the ${label}`, { cause: error })
  }
  return new CraikError('home_unwritable', `cannot ${doing} the ${label} (${code})`, { cause: error })
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown error'
}
