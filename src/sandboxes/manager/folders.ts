/** A sandbox's own folder on the host: made private, and removed without following anything in it. */
import { execFile } from 'node:child_process'
import { chmod, lstat, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CraikError } from '../../errors.ts'
import { ensurePrivateFolder } from '../../lib/private-files.ts'
import { findSystemProgram } from '../backends/process/system-program.ts'

const run = promisify(execFile)
/** A full disk of small files takes its time. */
const REMOVE_DEADLINE_MS = 10 * 60_000

export function folderOf(sandboxes: string, id: string): string {
  if (!/^sbx_[0-9A-Z]{26}$/.test(id)) throw new CraikError('internal', 'a sandbox has no proper id')
  return join(sandboxes, id)
}

export async function makeFolder(sandboxes: string, id: string): Promise<string> {
  ensurePrivateFolder(sandboxes, 'folder of the sandboxes')
  const folder = folderOf(sandboxes, id)
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError(
      code === 'ENOSPC' || code === 'EDQUOT' ? 'disk_full' : 'home_unwritable',
      `cannot make the folder of sandbox ${id} (${code})`,
      { cause },
    )
  }
  return folder
}

/** A backend may open it a little so that a sandbox's user passes through while it starts; then nobody has to. */
export async function closeFolder(sandboxes: string, id: string): Promise<void> {
  const folder = folderOf(sandboxes, id)
  const stats = await lstat(folder)
  if (!stats.isDirectory() || stats.uid !== process.geteuid?.()) {
    throw new CraikError('key_exposed', `the folder of sandbox ${id} is not the one that Craik made`, {
      hint: `remove what is left of it:  craik sandbox delete ${id}`,
    })
  }
  await chmod(folder, 0o700)
}

/**
 * Only when nothing runs in the sandbox any more. What was written inside may be closed to its owner, or nested
 * deeper than a path can spell: then the system's own programs, which walk by descriptors and follow no links, do it.
 */
export async function removeFolder(sandboxes: string, id: string): Promise<void> {
  const folder = folderOf(sandboxes, id)
  try {
    await rm(folder, { recursive: true, force: true })
    return
  } catch {}
  try {
    const options = { timeout: REMOVE_DEADLINE_MS, env: {} }
    // Fails where something belongs to somebody else; removing then says which.
    await run(program('chmod'), ['-R', 'u+rwx', '--', folder], options).catch(() => {})
    await run(program('rm'), ['-rf', '--', folder], options)
  } catch (cause) {
    throw new CraikError('home_unwritable', `cannot remove the folder of sandbox ${id}`, {
      hint: 'see whose files are in it; when they are gone:  craik sandbox delete ID',
      cause,
    })
  }
}

function program(name: string): string {
  const found = findSystemProgram(name, '/usr/bin:/bin')
  if (found === undefined) throw new CraikError('unavailable', `${name} is not on this machine`)
  return found
}
