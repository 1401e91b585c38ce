/**
 * A folder that is held open, so that what is done in it is done in that very folder, whatever its path leads to by
 * now. Linux reaches the entries of an open folder through /proc/self/fd, as openat(2) does. Elsewhere paths are put
 * together again, and one who can rename folders in the meantime is not held off: no sandbox runs on the files of
 * such a machine directly.
 */
import { constants, type FileHandle, mkdir, open } from 'node:fs/promises'

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY

export class OpenFolder {
  readonly #handle: FileHandle
  readonly #path: string

  private constructor(handle: FileHandle, path: string) {
    this.#handle = handle
    this.#path = process.platform === 'linux' ? `/proc/self/fd/${handle.fd}` : path
  }

  /** Follows links: the path is the caller's own. */
  static async open(path: string): Promise<OpenFolder> {
    return new OpenFolder(await open(path, FOLDER), path)
  }

  /** The path of an entry, good as long as the folder is held. `name` is one component. */
  at(name: string): string {
    // Put together as it is: made shorter, `.` would be the link in /proc that stands for the folder.
    return `${this.#path}/${name}`
  }

  /** The path of the folder itself, to list it. */
  get path(): string {
    return this.#path
  }

  /** Holds a folder in this one; fails with ELOOP or ENOTDIR when the name is a link or a file. */
  async enter(name: string): Promise<OpenFolder> {
    const path = this.at(name)
    return new OpenFolder(await open(path, FOLDER | constants.O_NOFOLLOW), path)
  }

  /** As `enter`, and makes the folder when there is nothing of that name. */
  async enterOrMake(name: string): Promise<OpenFolder> {
    try {
      return await this.enter(name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    await mkdir(this.at(name), 0o755).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    return await this.enter(name)
  }

  async setMode(mode: number): Promise<void> {
    await this.#handle.chmod(mode)
  }

  async setOwner(uid: number, gid: number): Promise<void> {
    await this.#handle.chown(uid, gid)
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }
}
