/** Checks whether the home is still the one that the supervisor was started with. */
import { type BigIntStats, closeSync, constants, fstatSync, lstatSync, openSync } from 'node:fs'

export interface OpenHome extends Disposable {
  /**
   * Also checks this file. This process has it open, and it changes only when another home replaces it, such as the
   * database.
   */
  watch(file: string): void
  /**
   * `moved`: the home is elsewhere, or another folder is at its path. `removed`: it no longer exists. `replaced`: the
   * folder is the same, but its files belong to another home, such as a restored backup.
   */
  state(): 'here' | 'moved' | 'removed' | 'replaced'
}

/** Keeps the folder open, so that no other folder gets its inode number. */
export function openHome(root: string): OpenHome {
  const folder = openSync(root, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  const files = new Map<string, BigIntStats>()
  return {
    watch: (file) => void files.set(file, lstatSync(file, { bigint: true })),
    state() {
      const own = fstatSync(folder, { bigint: true })
      if (own.nlink === 0n) return 'removed'
      if (!isStill(root, own)) return 'moved'
      return [...files].every(([file, found]) => isStill(file, found)) ? 'here' : 'replaced'
    },
    [Symbol.dispose]: () => closeSync(folder),
  }
}

function isStill(path: string, own: BigIntStats): boolean {
  try {
    const found = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    return found?.dev === own.dev && found.ino === own.ino
  } catch {
    // A file that cannot be inspected now, such as one on a slow network, may still be the same.
    return true
  }
}
