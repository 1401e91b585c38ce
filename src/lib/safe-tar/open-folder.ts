/**
 * A folder that stays open, so that every operation uses that same folder, whatever its path leads to now. Linux
 * reaches the entries of an open folder through /proc/self/fd, as openat(2) does. Elsewhere paths are concatenated,
 * which does not stop a program that renames folders in the meantime. On those systems, no sandbox works directly on
 * the host's files.
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

  /** Opens a folder. Follows links, because the path is the caller's own. */
  static async open(path: string): Promise<OpenFolder> {
    return new OpenFolder(await open(path, FOLDER), path)
  }

  /** Returns the path of an entry. It is valid while the folder is open. `name` is one component. */
  at(name: string): string {
    // The path is not normalized. For `.`, a normalized path would name the link in /proc that stands for the folder.
    return `${this.#path}/${name}`
  }

  /** The path of the folder itself, for listing it. */
  get path(): string {
    return this.#path
  }

  /** Opens a folder in this one. Fails with ELOOP or ENOTDIR when the name is a link or a file. */
  async enter(name: string): Promise<OpenFolder> {
    const path = this.at(name)
    return new OpenFolder(await open(path, FOLDER | constants.O_NOFOLLOW), path)
  }

  /** Does the same as `enter`, and creates the folder when the name is free. */
  async enterOrCreate(name: string): Promise<OpenFolder> {
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
