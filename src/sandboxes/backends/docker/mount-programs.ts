/** Finds the system's programs that mount things where the engine sees them. */
import { CraikError } from '../../../errors.ts'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { SYSTEM_PATH } from '../process/required-programs.ts'

export type MountProgram = 'mount' | 'umount' | 'nsenter'

export function mountProgram(name: MountProgram): string {
  const path = findSystemProgram(name, SYSTEM_PATH)
  if (path !== undefined) return path
  const hint = `apt-get install ${name === 'nsenter' ? 'util-linux' : 'mount'}`
  throw new CraikError('unavailable', `${name} is not installed`, { hint })
}
