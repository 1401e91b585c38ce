/** Things in another mount namespace, held so that they can be mounted, and mounted on, whatever becomes of their names. */
import { type BigIntStats, closeSync, constants, fstatSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { folderIdentity } from '../process/inspect-folder.ts'
import { openFolder } from '../process/open-folder.ts'
import { fileIdentity } from '../process/workspace-guard.ts'

/** Linux's own, which Node does not name: holds what may not even be read. */
const O_PATH = 0o10000000
const HOLD = O_PATH | constants.O_NOFOLLOW
/** The first number that a program gets what it is given by, after its input and its outputs. */
const FIRST_GIVEN = 3

export class OpenPaths implements Disposable {
  readonly #root: string
  readonly #held: number[] = []

  /** As the process sees them. */
  constructor(pid: number) {
    this.#root = `/proc/${pid}/root`
  }

  /** To be given to a program, in this order, after its input and its outputs. */
  get descriptors(): readonly number[] {
    return this.#held
  }

  /** `identity` as `device:inode`. */
  isFolder(path: string, identity: string): boolean {
    using folder = openFolder(join(this.#root, path))
    return folderIdentity(fstatSync(folder.descriptor, { bigint: true })) === identity
  }

  /** How a program that is given the descriptors names it. It must be the one that was looked at, and no link leads there. */
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
      throw new CraikError('unavailable', `${path} in the workspace was replaced while Craik mounted it`)
    return `/proc/self/fd/${FIRST_GIVEN + this.#held.length - 1}`
  }

  #open(folder: string, path: string): number {
    using opened = openFolder(folder)
    const [first, ...rest] = path.split('/')
    if (rest.length > 0) return this.#open(opened.at(first!), rest.join('/'))
    return openSync(opened.at(path), HOLD)
  }
}
