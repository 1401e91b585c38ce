/** What git inside a sandbox is to overlook in a workspace in place: what it says already, and the names that were taken. */
import { chmodSync, closeSync, fstatSync, openSync, readSync, writeFileSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import { OPEN_HERE, openFolder } from './folder-handle.ts'

const MAX_BYTES = 1024 * 1024

/** Writes it to `path`. False where the workspace has no such file to be mounted over, or one that is not its owner's. */
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
    // No repository, or none that keeps such a file.
    if (error instanceof CraikError || (error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

/** Root reads everything, so a second name of a file that its owner keeps to himself would be shown inside. */
function readOwn(path: string, uid: number): Buffer | undefined {
  const descriptor = openSync(path, OPEN_HERE)
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
