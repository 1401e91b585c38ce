/**
 * Writes git's exclude file for a sandbox in place: the workspace's own patterns, and the protected names that Craik
 * created.
 */
import { chmodSync, closeSync, fstatSync, openSync, readSync, writeFileSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import { OPEN_UNTRUSTED, openFolder } from './folder-handle.ts'

const MAX_BYTES = 1024 * 1024
/** The file is a link, a socket, or closed to this user. */
const UNREADABLE = new Set(['ELOOP', 'ENXIO', 'EACCES'])

/**
 * Writes the exclude file to `path`. Returns false when the workspace has no such file to mount over, or when the file
 * has another owner than the workspace.
 */
export function writeExclude(taken: readonly string[], workspace: string, path: string): boolean {
  try {
    using root = openFolder(workspace)
    using repository = openFolder(root.at('.git'))
    using info = openFolder(repository.at('info'))
    const output = readOwn(info.at('exclude'), fstatSync(root.descriptor).uid)
    if (output === undefined) return false
    const names = taken.map((name) => `/${name}\n`)
    writeFileSync(path, Buffer.concat([output, Buffer.from(`\n${names.join('')}`)]))
    chmodSync(path, 0o644)
    return true
  } catch (error) {
    // The workspace has no repository, or one without such a file.
    if (error instanceof CraikError || (error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

/**
 * Returns `undefined` for anything but a regular file of the workspace's owner. Root can read every file. A hard link
 * to a file that its owner keeps private would therefore appear in the sandbox.
 */
function readOwn(path: string, uid: number): Buffer | undefined {
  let descriptor: number
  try {
    descriptor = openSync(path, OPEN_UNTRUSTED)
  } catch (error) {
    if (UNREADABLE.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
  try {
    const stats = fstatSync(descriptor)
    if (!stats.isFile() || stats.uid !== uid || stats.nlink !== 1 || stats.size > MAX_BYTES) return undefined
    const content = Buffer.alloc(stats.size)
    let length = 0
    while (length < content.length) {
      const count = readSync(descriptor, content, length, content.length - length, null)
      if (count === 0) break
      length += count
    }
    return content.subarray(0, length)
  } finally {
    closeSync(descriptor)
  }
}
