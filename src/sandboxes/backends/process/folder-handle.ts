/** A folder held open, so that what is in it is reached through it, whatever becomes of its name. */
import { closeSync, constants, openSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'

export interface FolderHandle extends Disposable {
  /** The name of something in it, without following anything. */
  at(name: string): string
  readonly descriptor: number
}

/** For all that is opened where somebody else may write: a pipe put there is not waited for, a link not followed. */
export const OPEN_HERE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

export function openFolder(path: string): FolderHandle {
  try {
    const descriptor = openSync(path, OPEN_HERE | constants.O_DIRECTORY)
    return {
      descriptor,
      at: (name) => `/proc/self/fd/${descriptor}/${name}`,
      [Symbol.dispose]: () => closeSync(descriptor),
    }
  } catch (cause) {
    throw new CraikError('usage', 'cannot open the workspace', { cause })
  }
}
