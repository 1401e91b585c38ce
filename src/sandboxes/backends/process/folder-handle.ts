/** Opens a folder and reaches its content through the descriptor, so that a renamed or replaced folder does no harm. */
import { closeSync, constants, openSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'

export interface FolderHandle extends Disposable {
  /** Returns the path of an entry of the folder. Follows no link on the way to it. */
  at(name: string): string
  readonly descriptor: number
}

/** For everything that Craik opens where others can write. It does not wait for a pipe and does not follow a link. */
export const OPEN_UNTRUSTED = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

export function openFolder(path: string): FolderHandle {
  try {
    const descriptor = openSync(path, OPEN_UNTRUSTED | constants.O_DIRECTORY)
    return {
      descriptor,
      at: (name) => `/proc/self/fd/${descriptor}/${name}`,
      [Symbol.dispose]: () => closeSync(descriptor),
    }
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError('usage', `cannot open a folder of the workspace (${code})`, {
      hint: 'check that the workspace exists and that you can read it',
      cause,
    })
  }
}
