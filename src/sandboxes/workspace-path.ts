/**
 * Makes sure that a workspace is the folder that the user chose, even if its path leads elsewhere when a command
 * starts.
 */
import { realpathSync } from 'node:fs'
import { CraikError } from '../errors.ts'

/** Refuses a path that contains a symbolic link. Does not check whether the folder exists. */
export function requireResolved(path: string): void {
  const real = realPath(path)
  if (real !== undefined && real !== path) throw symbolicLinkError('the workspace')
}

export function symbolicLinkError(what: string): CraikError {
  return new CraikError(
    'usage',
    `${what} is behind a symbolic link, so it may not be the folder that you chose`,
    {
      hint: 'use the real folder:  realpath FOLDER',
    },
  )
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}
