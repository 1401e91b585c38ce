/** Removes what a sandbox wrote, without following anything in it. */
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { promisify } from 'node:util'
import { CraikError } from '../errors.ts'
import { findSystemProgram } from '../lib/host-programs.ts'

const run = promisify(execFile)
/** A full disk of small files takes its time. */
const REMOVE_DEADLINE_MS = 10 * 60_000

/**
 * Only when nothing runs there any more; nothing is there: fine. What was written inside may be closed to its owner, or
 * nested deeper than a path can spell: then the system's own programs, which walk by descriptors and follow no links, do
 * it.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true })
    return
  } catch {}
  const options = { timeout: REMOVE_DEADLINE_MS, env: {} }
  // Fails where something belongs to somebody else; removing then says which.
  await run(program('chmod'), ['-R', 'u+rwx', '--', path], options).catch(() => {})
  await run(program('rm'), ['-rf', '--', path], options)
}

function program(name: 'chmod' | 'rm'): string {
  const found = findSystemProgram(name, '/usr/bin:/bin')
  if (found === undefined) throw new CraikError('unavailable', `${name} is not installed`)
  return found
}
