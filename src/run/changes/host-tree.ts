/**
 * The workspace on this machine, in which changes are put. It is held open and entered folder by folder, never through a
 * link: whoever exchanges a folder meanwhile is answered as if it had been so from the beginning.
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
import { throughLink } from '../../sandboxes/workspace-path.ts'
import { sha256 } from './content-store.ts'
import { CHANGE_LIMITS } from './limits.ts'

/** What is at a path. `digest` is that of the content, or undefined where its length says that it is none of those asked for. */
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

/** Root works in the folders of others: what it puts there is theirs. */
const IS_ROOT = process.geteuid?.() === 0
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
const READ_FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY

export class HostTree implements AsyncDisposable {
  readonly #root: OpenFolder
  /** Changes of one folder mostly follow each other. */
  #recent: { readonly path: string; readonly folder: OpenFolder } | undefined

  private constructor(root: OpenFolder) {
    this.#root = root
  }

  /** The path is the one that was copied: one that leads through a link by now is not. */
  static async open(workspace: string): Promise<HostTree> {
    let root: OpenFolder
    try {
      root = await OpenFolder.open(workspace)
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      throw new CraikError('not_found', `cannot open the original folder (${code})`, {
        hint: 'restore the folder, then try again',
        cause,
      })
    }
    if (process.platform === 'linux' && (await readlink(root.path)) !== workspace) {
      await root.close()
      throw throughLink('the original folder')
    }
    return new HostTree(root)
  }

  /** `lengths`: a file of any other length is not read. */
  async look(path: string, lengths: readonly number[]): Promise<Seen> {
    const parent = await this.#parentOf(path)
    return 'kind' in parent ? parent : lookAt(parent.folder.at(parent.name), lengths)
  }

  /** Whether anything has that path, a link included. */
  async has(path: string): Promise<boolean> {
    const { kind } = await this.look(path, [])
    return kind !== 'nothing' && kind !== 'blocked'
  }

  /** The content of a file of that length, or undefined when there is none. */
  async read(path: string, bytes: number): Promise<Buffer | undefined> {
    const parent = await this.#parentOf(path)
    return 'kind' in parent ? undefined : (await readFileAt(parent.folder.at(parent.name), [bytes]))?.content
  }

  /** Whether nothing but folders and these files is below a folder. */
  async holdsOnly(path: string, files: ReadonlySet<string>): Promise<boolean> {
    const parent = await this.#parentOf(path)
    if ('kind' in parent) return false
    const folder = await parent.folder.enter(parent.name).catch(() => undefined)
    return folder !== undefined && holdsOnly(folder, path, files)
  }

  /**
   * Puts a file in its place, in place of another or of nothing. `isStill` is asked when all is ready: what it says no to
   * stays as it is. Of the file that was there, mode and owner are kept, but for the right to run it.
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

  /** Only the right to run it is changed. */
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

  /** Removes a file or a link, and the folders that are empty without it. */
  async remove(path: string): Promise<boolean> {
    const parent = await this.#parentOf(path)
    if ('kind' in parent) return false
    await unlink(parent.folder.at(parent.name))
    for (let folder = outerOf(path); folder !== ''; folder = outerOf(folder))
      if (!(await this.#removeEmpty(folder))) break
    return true
  }

  /** What is done next begins at the top again. */
  async leave(): Promise<void> {
    const recent = this.#recent
    this.#recent = undefined
    await recent?.folder.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave()
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
        // Of an attempt that was killed.
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
    // What is held may be this very folder, and another one of its name is made later.
    if (parent.folder === this.#root) await this.leave()
    try {
      await rmdir(parent.folder.at(parent.name))
      return true
    } catch {
      return false
    }
  }

  /** The folder that a path lies in, held until another is asked for, and the last name of the path. */
  async #parentOf(
    path: string,
    make = false,
  ): Promise<Parent | Extract<Seen, { kind: 'nothing' | 'blocked' }>> {
    const outer = outerOf(path)
    const name = path.slice(outer === '' ? 0 : outer.length + 1)
    if (outer === '') return { folder: this.#root, name }
    if (this.#recent?.path === outer) return { folder: this.#recent.folder, name }
    await this.leave()
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
  /** A name for what is being made, beside its place: the same each time, so that what was broken off is found again. */
  readonly temporary: string
  readonly isStill: () => Promise<boolean>
}

interface PutFile extends PutLink {
  readonly executable: boolean
}

/** A new folder belongs to whom the folder around it belongs. */
async function enterOrMake(outer: OpenFolder, name: string): Promise<OpenFolder> {
  try {
    return await outer.enter(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const made = await outer.enterOrMake(name)
  if (IS_ROOT) {
    const { uid, gid } = await lstat(outer.at('.'))
    await made.setOwner(uid, gid)
  }
  return made
}

async function lookAt(path: string, lengths: readonly number[]): Promise<Seen> {
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

/** Undefined when it got shorter or longer meanwhile. */
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

/** Never more than its owner could give, and never set-id bits. */
function modeOf(old: number | undefined, executable: boolean): number {
  const readable = (old ?? 0o666 & ~process.umask()) & 0o666
  return executable ? readable | ((readable & 0o444) >> 2) : readable
}

/** False when a folder is in its place. */
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
