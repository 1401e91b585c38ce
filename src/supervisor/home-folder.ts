/** Whether the home folder is still the one that the supervisor was started with. */
import { closeSync, constants, fstatSync, lstatSync, openSync } from 'node:fs'

export interface HeldHome extends Disposable {
  /** `moved`: it is elsewhere, or another folder is in its place. `removed`: it no longer exists. */
  state(): 'here' | 'moved' | 'removed'
}

/** Keeps the folder open, so that no other folder gets its inode number. */
export function holdHome(root: string): HeldHome {
  const folder = openSync(root, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  return {
    state() {
      const own = fstatSync(folder, { bigint: true })
      if (own.nlink === 0n) return 'removed'
      try {
        const found = lstatSync(root, { bigint: true, throwIfNoEntry: false })
        return found?.dev === own.dev && found.ino === own.ino ? 'here' : 'moved'
      } catch {
        // A folder that cannot be looked at now, such as one of a slow network, may be the same.
        return 'here'
      }
    },
    [Symbol.dispose]: () => closeSync(folder),
  }
}
