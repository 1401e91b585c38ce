/** Removes what a sandbox wrote, without following links in it. */
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { promisify } from 'node:util'
import { CraikError } from '../errors.ts'
import { findSystemProgram } from '../lib/host-programs.ts'

const run = promisify(execFile)
/** Removing a full disk of small files takes long. */
const REMOVE_DEADLINE_MS = 10 * 60_000

/**
 * Removes a folder in which nothing runs any longer. Does nothing if it is missing. A sandbox can leave folders without
 * permissions, or nested deeper than the longest path. Then the system's own programs remove them, because they walk by
 * descriptors and follow no links.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true })
    return
  } catch {}
  const options = { timeout: REMOVE_DEADLINE_MS, env: {} }
  // `chmod` fails if another user owns something. `rm` then reports the file.
  await run(program('chmod'), ['-R', 'u+rwx', '--', path], options).catch(() => {})
  await run(program('rm'), ['-rf', '--', path], options)
}

function program(name: 'chmod' | 'rm'): string {
  const found = findSystemProgram(name, '/usr/bin:/bin')
  if (found === undefined)
    throw new CraikError('unavailable', `${name} is not installed`, { hint: 'apt-get install coreutils' })
  return found
}
