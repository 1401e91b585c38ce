/**
 * The workspace on the host, to which changes are applied. It stays open, and Craik enters it folder by folder and
 * never through a link. If somebody replaces a folder meanwhile, the result is the same as if it had been so from the
 * start.
 */
import { constants, type Stats } from 'node:fs'
import {
  type FileHandle,
  lchown,
  lstat,
  open,
  readdir,
  readlink,
  rename,
  rm,
  rmdir,
  symlink,
  unlink,
} from 'node:fs/promises'
import { CraikError } from '../../errors.ts'
import { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import { symbolicLinkError } from '../../sandboxes/workspace-path.ts'
import { CHANGE_LIMITS } from './change-limits.ts'
import { sha256 } from './content-store.ts'

/**
 * The entry at a path. `digest` is that of its content, or `undefined` when its length is not one of the requested
 * lengths.
 */
export type Seen =
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'file'
      readonly bytes: number
      readonly executable: boolean
      readonly digest: string | undefined
    }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'folder' }
  | { readonly kind: 'special' }
  /** A folder of the path is a link or a file. */
  | { readonly kind: 'blocked'; readonly at: string }

/** Root works in the folders of other users, who must own what it creates there. */
const IS_ROOT = process.geteuid?.() === 0
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
const READ_FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY

export class HostTree implements AsyncDisposable {
  readonly #root: OpenFolder
  /** Changes in one folder mostly follow each other. */
  #recent: { readonly path: string; readonly folder: OpenFolder } | undefined

  private constructor(root: OpenFolder) {
    this.#root = root
  }

  /** Opens the copied folder. Throws when its path leads through a link. */
  static async open(workspace: string): Promise<HostTree> {
    let root: OpenFolder
    try {
      root = await OpenFolder.open(workspace)
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      throw new CraikError('not_found', `cannot open the original folder ${workspace} (${code})`, {
        hint: 'move the folder back to this path, then try again',
        cause,
      })
    }
    if (process.platform === 'linux' && (await readlink(root.path)) !== workspace) {
      await root.close()
      throw symbolicLinkError('the original folder')
    }
    return new HostTree(root)
  }

  /** Returns the entry at a path. Does not read a file whose length is not in `lengths`. */
  async look(path: string, lengths: readonly number[]): Promise<Seen> {
    const parent = await this.#parentOf(path)
    return 'kind' in parent ? parent : readEntry(parent.folder.at(parent.name), lengths)
  }

  /** Returns whether the path exists, including as a link. */
  async has(path: string): Promise<boolean> {
    const { kind } = await this.look(path, [])
    return kind !== 'nothing' && kind !== 'blocked'
  }

  /** Returns the content of a file of that length, or `undefined` when none exists. */
  async read(path: string, bytes: number): Promise<Buffer | undefined> {
    const parent = await this.#parentOf(path)
    return 'kind' in parent ? undefined : (await readFileAt(parent.folder.at(parent.name), [bytes]))?.content
  }

  /** Returns whether a folder contains only folders and these files. */
  async holdsOnly(path: string, files: ReadonlySet<string>): Promise<boolean> {
    const parent = await this.#parentOf(path)
    if ('kind' in parent) return false
    const folder = await parent.folder.enter(parent.name).catch(() => undefined)
    return folder !== undefined && holdsOnly(folder, path, files)
  }

  /**
   * Puts a file at a path, and replaces an existing one. Asks `isStill` when the file is ready. If it returns false,
   * nothing changes. An existing file keeps its mode and owner, except for the executable bit.
   */
  async putFile(path: string, content: Buffer, { executable, ...put }: PutFile): Promise<boolean> {
    return this.#put(path, put, async (at, old, owner) => {
      const file = await open(at, NEW_FILE, 0o600)
      try {
        await file.writeFile(content)
        await file.chmod(modeOf(old?.isFile() ? old.mode : undefined, executable))
        if (IS_ROOT) await file.chown(owner.uid, owner.gid)
      } finally {
        await file.close()
      }
    })
  }

  async putLink(path: string, target: string, put: PutLink): Promise<boolean> {
    return this.#put(path, put, async (at, _, owner) => {
      await symlink(target, at)
      if (IS_ROOT) await lchown(at, owner.uid, owner.gid)
    })
  }

  /** Changes only the executable bit. */
  async setExecutable(path: string, executable: boolean): Promise<boolean> {
    const parent = await this.#parentOf(path)
    if ('kind' in parent) return false
    const file = await open(parent.folder.at(parent.name), READ_FILE)
    try {
      const found = await file.stat()
      if (found.isFile()) await file.chmod(modeOf(found.mode, executable))
      return found.isFile()
    } finally {
      await file.close()
    }
  }

  /** Removes a file or a link, and the parent folders that become empty. */
  async remove(path: string): Promise<boolean> {
    const parent = await this.#parentOf(path)
    if ('kind' in parent) return false
    await unlink(parent.folder.at(parent.name))
    for (let folder = outerOf(path); folder !== ''; folder = outerOf(folder))
      if (!(await this.#removeEmpty(folder))) break
    return true
  }

  /** Closes the current folder, so that the next action starts at the root. */
  async close(): Promise<void> {
    const recent = this.#recent
    this.#recent = undefined
    await recent?.folder.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
    await this.#root.close()
  }

  async #put(
    path: string,
    { temporary, isStill }: PutLink,
    make: (at: string, old: Stats | undefined, owner: Stats) => Promise<void>,
  ): Promise<boolean> {
    const parent = await this.#parentOf(path, true)
    if ('kind' in parent) return false
    const { folder, name } = parent
    const at = folder.at(temporary)
    const old = await lstat(folder.at(name)).catch(() => undefined)
    const owner = old ?? (await lstat(folder.at('.')))
    let isMoved = false
    try {
      await make(at, old, owner).catch(async (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
        // A killed attempt left this file.
        await unlink(at)
        await make(at, old, owner)
      })
      isMoved = (await isStill()) && (await moveInto(at, folder.at(name)))
      return isMoved
    } finally {
      if (!isMoved) await rm(at, { force: true })
    }
  }

  async #removeEmpty(path: string): Promise<boolean> {
    const parent = await this.#parentOf(path)
    if ('kind' in parent) return false
    // The open folder can be the removed one, and a new folder can get its name later.
    if (parent.folder === this.#root) await this.close()
    try {
      await rmdir(parent.folder.at(parent.name))
      return true
    } catch {
      return false
    }
  }

  /** Returns the parent folder of a path, open until the next call, and the last name of the path. */
  async #parentOf(
    path: string,
    make = false,
  ): Promise<Parent | Extract<Seen, { kind: 'nothing' | 'blocked' }>> {
    const outer = outerOf(path)
    const name = path.slice(outer === '' ? 0 : outer.length + 1)
    if (outer === '') return { folder: this.#root, name }
    if (this.#recent?.path === outer) return { folder: this.#recent.folder, name }
    await this.close()
    const folder = await this.#enter(outer.split('/'), make)
    if ('kind' in folder) return folder
    this.#recent = { path: outer, folder }
    return { folder, name }
  }

  async #enter(
    parts: readonly string[],
    make: boolean,
  ): Promise<OpenFolder | Extract<Seen, { kind: 'nothing' | 'blocked' }>> {
    let folder = await this.#root.enter('.')
    for (const [depth, part] of parts.entries()) {
      const outer = folder
      try {
        folder = make ? await enterOrMake(outer, part) : await outer.enter(part)
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code === 'ENOENT') return { kind: 'nothing' }
        if (code === 'ELOOP' || code === 'ENOTDIR')
          return { kind: 'blocked', at: parts.slice(0, depth + 1).join('/') }
        throw error
      } finally {
        await outer.close()
      }
    }
    return folder
  }
}

interface Parent {
  readonly folder: OpenFolder
  readonly name: string
}

interface PutLink {
  /**
   * The temporary name next to the target. It is the same each time, so that a later attempt finds the file of an
   * interrupted one.
   */
  readonly temporary: string
  readonly isStill: () => Promise<boolean>
}

interface PutFile extends PutLink {
  readonly executable: boolean
}

/** A new folder gets the owner of its parent folder. */
async function enterOrMake(outer: OpenFolder, name: string): Promise<OpenFolder> {
  try {
    return await outer.enter(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const made = await outer.enterOrCreate(name)
  if (IS_ROOT) {
    const { uid, gid } = await lstat(outer.at('.'))
    await made.setOwner(uid, gid)
  }
  return made
}

async function readEntry(path: string, lengths: readonly number[]): Promise<Seen> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (found === undefined) return { kind: 'nothing' }
  if (found.isDirectory()) return { kind: 'folder' }
  if (found.isSymbolicLink()) return { kind: 'link', target: await readlink(path) }
  if (!found.isFile()) return { kind: 'special' }
  const read = await readFileAt(path, lengths)
  if (read === undefined) return { kind: 'special' }
  const { bytes, executable, content } = read
  return { kind: 'file', bytes, executable, digest: content && sha256(content) }
}

async function readFileAt(path: string, lengths: readonly number[]) {
  const file = await open(path, READ_FILE)
  try {
    const found = await file.stat()
    if (!found.isFile()) return undefined
    const isWanted = lengths.includes(found.size) && found.size <= CHANGE_LIMITS.fileBytes
    const content = isWanted ? await readExactly(file, found.size) : undefined
    return { bytes: found.size, executable: (found.mode & 0o100) !== 0, content }
  } finally {
    await file.close()
  }
}

/** Returns `undefined` when the length changed meanwhile. */
async function readExactly(file: FileHandle, bytes: number): Promise<Buffer | undefined> {
  const content = Buffer.allocUnsafe(bytes + 1)
  let length = 0
  while (length < content.length) {
    const { bytesRead } = await file.read(content, length, content.length - length, length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return length === bytes ? content.subarray(0, bytes) : undefined
}

async function holdsOnly(folder: OpenFolder, path: string, files: ReadonlySet<string>): Promise<boolean> {
  try {
    for (const entry of await readdir(folder.path, { withFileTypes: true })) {
      const below = `${path}/${entry.name}`
      if (!entry.isDirectory() && !files.has(below)) return false
      if (entry.isDirectory() && !(await holdsOnly(await folder.enter(entry.name), below, files)))
        return false
    }
    return true
  } finally {
    await folder.close()
  }
}

/** Returns a mode without set-id bits that adds only the executable bit. */
function modeOf(old: number | undefined, executable: boolean): number {
  const readable = (old ?? 0o666 & ~process.umask()) & 0o666
  return executable ? readable | ((readable & 0o444) >> 2) : readable
}

/** Returns false when a folder is at the target. */
async function moveInto(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EISDIR' || code === 'ENOTEMPTY' || code === 'EEXIST') return false
    throw error
  }
}

function outerOf(path: string): string {
  const cut = path.lastIndexOf('/')
  return cut === -1 ? '' : path.slice(0, cut)
}
