/**
 * Opens files and folders in another mount namespace, so that later mounts use exactly these, whatever happens to their
 * names.
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { openFolder } from '../process/folder-handle.ts'
import { folderIdentity } from '../process/inspect-folder.ts'
import { fileIdentity } from '../process/workspace-guard.ts'

/** A flag of Linux that Node does not name. It opens even files that the process cannot read. */
const O_PATH = 0o10000000
const HOLD = O_PATH | constants.O_NOFOLLOW
/** The number of the first passed descriptor in the program. Its standard input and outputs come before it. */
const FIRST_GIVEN = 3

export class OpenPaths implements Disposable {
  readonly #root: string
  readonly #held: number[] = []

  /** Paths are those that this process sees. */
  constructor(pid: number) {
    this.#root = `/proc/${pid}/root`
  }

  /** The descriptors to pass to the program, in this order, after its standard input and outputs. */
  get descriptors(): readonly number[] {
    return this.#held
  }

  /** Returns whether the folder has the given identity, `device:inode`. */
  isFolder(path: string, identity: string): boolean {
    using folder = openFolder(join(this.#root, path))
    return folderIdentity(fstatSync(folder.descriptor, { bigint: true })) === identity
  }

  /**
   * Opens a path and returns its name for a program that gets the descriptors. Throws when the identity differs from
   * the checked one, or a link leads there.
   */
  path(view: string, path: string, identity: string): string {
    return this.#hold(view, path, (stats) => fileIdentity(stats) === identity)
  }

  file(view: string, path: string): string {
    return this.#hold(view, path, (stats) => stats.isFile())
  }

  [Symbol.dispose](): void {
    for (const descriptor of this.#held.splice(0)) closeSync(descriptor)
  }

  #hold(view: string, path: string, isIt: (stats: BigIntStats) => boolean): string {
    const descriptor = this.#open(join(this.#root, view), path)
    this.#held.push(descriptor)
    if (!isIt(fstatSync(descriptor, { bigint: true })))
      throw new CraikError('unavailable', `${path} in the workspace was replaced while Craik mounted it`, {
        hint: 'stop the program that changes the workspace, then try again',
      })
    return `/proc/self/fd/${FIRST_GIVEN + this.#held.length - 1}`
  }

  #open(folder: string, path: string): number {
    using opened = openFolder(folder)
    const [first, ...rest] = path.split('/')
    if (rest.length > 0) return this.#open(opened.at(first!), rest.join('/'))
    return openSync(opened.at(path), HOLD)
  }
}
