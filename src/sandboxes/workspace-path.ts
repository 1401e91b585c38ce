/** A workspace is the folder that was chosen, not whatever its path leads to by the time a command starts. */
import { realpathSync } from 'node:fs'
import { CraikError } from '../errors.ts'

/** Refuses a path with a link in it. Whether there is a folder at all is another question. */
export function requireResolved(path: string): void {
  const real = realPath(path)
  if (real !== undefined && real !== path) throw throughLink('the workspace')
}

export function throughLink(what: string): CraikError {
  return new CraikError(
    'usage',
    `${what} is behind a symbolic link, so it may not be the folder that you chose`,
    {
      hint: 'check where it points, then use the real folder:  realpath FOLDER',
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
