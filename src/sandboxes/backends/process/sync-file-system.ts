/** Makes sure that everything written below a folder is on the disk. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { CraikError } from '../../../errors.ts'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { SYSTEM_PATH } from './required-programs.ts'

const run = promisify(execFile)
const SYNC_DEADLINE_MS = 10 * 60_000

/** Uses one call for everything, because a sync of each file would take longer than writing them. */
export async function syncFileSystem(folder: string): Promise<void> {
  const sync = findSystemProgram('sync', SYSTEM_PATH)
  if (sync === undefined)
    throw new CraikError('unavailable', 'sync is not installed', { hint: 'apt-get install coreutils' })
  try {
    await run(sync, ['-f', '--', folder], { timeout: SYNC_DEADLINE_MS, env: {} })
  } catch (cause) {
    throw new CraikError('disk_full', 'cannot write all data to the disk', { cause })
  }
}
