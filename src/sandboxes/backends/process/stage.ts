/**
 * Chooses the host folder over which root mounts a sandbox's parts, in a mount namespace that no other process shares.
 */
import { lstatSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'

/** Every system has one of them, and bubblewrap needs nothing from them. */
const CANDIDATES = ['/mnt', '/media', '/srv', '/opt']

/** Returns a folder that hides none of the folders to mount. */
export function chooseStage(shown: readonly string[], candidates: readonly string[] = CANDIDATES): string {
  const stage = candidates.find(
    (folder) =>
      lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() &&
      !shown.some((path) => path === folder || path.startsWith(`${folder}/`)),
  )
  if (stage !== undefined) return stage
  throw new CraikError('unavailable', 'this machine has no free folder to mount the sandbox at', {
    hint: 'mkdir /mnt',
  })
}
