/** Creates the folders in a sandbox's home over which its volumes are mounted. */
import { closeSync, constants, fchmodSync, fchownSync, mkdirSync, openSync } from 'node:fs'
import { CraikError } from '../../errors.ts'
import type { HostUser, VolumeSpec } from '../backend.ts'
import { RECREATE_COMMAND } from '../outdated-sandbox.ts'

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/**
 * Creates the missing folders, owned by the sandbox's user. Nothing runs in the sandbox meanwhile, but it may have
 * replaced a folder by a link before. So each name is opened in its parent folder, and no link is followed.
 */
export function makeMountPoints(
  home: string,
  volumes: readonly VolumeSpec[],
  user: HostUser | undefined,
): void {
  for (const { name, at } of volumes) {
    let folder = openSync(home, FOLDER)
    try {
      for (const segment of at.split('/')) {
        const next = enter(folder, segment, user)
        closeSync(folder)
        folder = next
      }
    } catch (cause) {
      throw blockedError(name, at, cause)
    } finally {
      closeSync(folder)
    }
  }
}

function enter(folder: number, segment: string, user: HostUser | undefined): number {
  const path = `/proc/self/fd/${folder}/${segment}`
  if (!isNew(path)) return openSync(path, FOLDER)
  const made = openSync(path, FOLDER)
  // Craik's umask must not apply to the sandbox's user.
  fchmodSync(made, 0o700)
  if (user !== undefined) fchownSync(made, user.uid, user.gid)
  return made
}

function isNew(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function blockedError(name: string, at: string, cause: unknown): CraikError {
  const { code } = cause as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', `no space left on the disk of the sandbox for ~/${at}`, { cause })
  return new CraikError(
    'conflict',
    `cannot mount the volume ${name}: ~/${at} in the sandbox is not a folder, or is behind a symbolic link`,
    {
      hint: `recreate the sandbox, which keeps its volumes:  ${RECREATE_COMMAND}`,
      cause,
    },
  )
}
