/**
 * Where on this machine something from inside a sandbox is written to. Folders are held open and entered by name, never
 * through a link, because in a workspace that is used in place the inside can exchange one at any moment.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, lstat, open, rename, rm, statfs } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import { formatBytes } from './amounts.ts'

/** At most two lots are in memory: one that is written and one that is gathered. */
const LOT_BYTES = 1024 * 1024

/** A name in a folder; nothing may be there yet. */
export interface LocalDestination {
  readonly folder: OpenFolder
  readonly name: string
  /** Whether the folder is the path that was written, and the name one below it. */
  readonly isIn?: boolean
}

/** What a person typed leads to: a folder that exists, in which `name` goes, or the very name that it gets. */
export async function openDestination(typed: string, name: string): Promise<LocalDestination> {
  const path = resolve(typed)
  if (path === '/') return { folder: await openFolder(path), name: oneName(name), isIn: true }
  const parent = await openFolder(dirname(path))
  try {
    const folder = await parent.enter(basename(path))
    await parent.close()
    return { folder, name: oneName(name), isIn: true }
  } catch (error) {
    const problem = await explain(error, parent, basename(path), typed)
    if (problem === undefined) return { folder: parent, name: basename(path) }
    await parent.close()
    throw problem
  }
}

/** The very folder that a person typed; it need not exist yet. */
export async function openFolderAt(typed: string): Promise<LocalDestination> {
  const path = resolve(typed)
  return { folder: await openFolder(dirname(path)), name: path === '/' ? '.' : basename(path) }
}

/** The folder of that name, made where there is none. */
export async function enterFolder({ folder, name }: LocalDestination): Promise<OpenFolder> {
  try {
    return await folder.enterOrMake(name)
  } catch (error) {
    const found = await lstat(folder.at(name)).catch(() => undefined)
    if (found?.isSymbolicLink()) throw isLink()
    if (found?.isDirectory() === false)
      throw new CraikError('conflict', 'cannot create the folder: a file of that name exists', {
        hint: 'choose another name, or remove the file first',
      })
    throw translate(error)
  }
}

async function explain(
  error: unknown,
  parent: OpenFolder,
  name: string,
  typed: string,
): Promise<Error | undefined> {
  if (error instanceof CraikError) return error
  const found = await lstat(parent.at(name)).catch(() => undefined)
  if (found?.isSymbolicLink()) return isLink()
  if (found?.isDirectory()) return translate(error)
  if (typed.endsWith('/'))
    return new CraikError('usage', 'the destination folder does not exist', {
      hint: 'create it first:  mkdir',
    })
  return undefined
}

/** A name that comes from inside is one name, and nothing that leads elsewhere. */
function oneName(name: string): string {
  if (name !== '' && name !== '.' && name !== '..' && !name.includes('/') && !name.includes('\0')) return name
  throw new CraikError('usage', 'the destination needs a file name', { hint: 'write a name, such as ./copy' })
}

async function openFolder(path: string): Promise<OpenFolder> {
  try {
    return await OpenFolder.open(path)
  } catch (error) {
    throw translate(error)
  }
}

export async function freeBytes(folder: OpenFolder): Promise<number> {
  const { bavail, bsize } = await statfs(folder.path)
  return bavail * bsize
}

/** Takes the bytes in a file beside the final one, which then takes its name, in place of a file or link of that name only. */
export class LocalFile implements AsyncDisposable {
  readonly #at: LocalDestination
  readonly #temporary: string
  readonly #file: FileHandle
  #gathered: Buffer[] = []
  #gatheredBytes = 0
  #isWriting = false
  /** Of the lot before; once one has failed, for good. */
  #written: Promise<void> = Promise.resolve()
  #done = false

  private constructor(at: LocalDestination, temporary: string, file: FileHandle) {
    this.#at = at
    this.#temporary = temporary
    this.#file = file
  }

  /** Refuses to replace what is no file, and to begin what the disk has no room for. */
  static async create(at: LocalDestination, bytes: number): Promise<LocalFile> {
    const { folder } = at
    await requireReplaceable(at)
    if (bytes > (await freeBytes(folder)))
      throw new CraikError('disk_full', `not enough disk space for ${formatBytes(bytes)}`)
    const temporary = folder.at(`.craik-${randomBytes(8).toString('hex')}.part`)
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    try {
      return new LocalFile(at, temporary, await open(temporary, flags, 0o600))
    } catch (error) {
      throw translate(error)
    }
  }

  /** May be done before it is written: what fails is told by the next call, `commit` at the latest. */
  async write(chunk: Buffer): Promise<void> {
    this.#gathered.push(chunk)
    this.#gatheredBytes += chunk.length
    if (!this.#isWriting || this.#gatheredBytes >= LOT_BYTES) await this.#writeGathered()
  }

  /** Chunks are small, and a write takes the same time for many: while one lot is written, the next is gathered. */
  async #writeGathered(): Promise<void> {
    await this.#written
    const lot = Buffer.concat(this.#gathered)
    this.#gathered = []
    this.#gatheredBytes = 0
    this.#isWriting = true
    this.#written = this.#file.writeFile(lot).then(
      () => {
        this.#isWriting = false
      },
      (error) => {
        this.#isWriting = false
        throw translate(error)
      },
    )
    // Whoever waits for it next hears of it.
    this.#written.catch(() => {})
  }

  /**
   * From here on the file has its name. Of `mode`, what could give rights away is left out. `keep`: whatever has the
   * name by now stays, and this fails.
   */
  async commit(mode: number, keep = false): Promise<void> {
    await this.#writeGathered()
    await this.#written
    try {
      await this.#file.chmod(mode & 0o777 & ~process.umask())
      await this.#file.sync()
      const path = this.#at.folder.at(this.#at.name)
      if (keep) await link(this.#temporary, path)
      else {
        await requireReplaceable(this.#at)
        await rename(this.#temporary, path)
      }
      this.#done = !keep
    } catch (error) {
      throw translate(error)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#written.catch(() => {})
    await this.#file.close()
    if (!this.#done) await rm(this.#temporary, { force: true })
  }
}

/** Nothing, a file, or a link. A device of the machine that becomes a file breaks it. */
async function requireReplaceable({ folder, name }: LocalDestination): Promise<void> {
  const found = await lstat(folder.at(name)).catch(() => undefined)
  if (found === undefined || found.isFile() || found.isSymbolicLink()) return
  if (found.isDirectory())
    throw new CraikError('conflict', 'a folder of that name exists, and a file cannot replace it', {
      hint: 'choose another name, or remove the folder first',
    })
  const kind = found.isSocket() ? 'socket' : found.isFIFO() ? 'pipe' : 'device'
  throw new CraikError('conflict', `the destination is a ${kind}, not a regular file`, {
    hint: 'choose the name of a regular file, or an unused name',
  })
}

function isLink(): CraikError {
  return new CraikError('usage', 'refusing to write through a symbolic link: its target could change', {
    hint: 'use the path of its target (readlink -f shows it)',
  })
}

function translate(error: unknown): CraikError {
  if (error instanceof CraikError) return error
  const { code = 'unknown error' } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', 'no space left for the copy', { cause: error })
  if (code === 'EISDIR' || code === 'ENOTEMPTY' || code === 'EEXIST')
    return new CraikError('conflict', 'a folder of that name exists', { cause: error })
  const why = code === 'ENOENT' || code === 'ENOTDIR' ? 'its folder does not exist' : code
  return new CraikError('usage', `cannot write the copy: ${why}`, {
    hint: 'choose an existing folder that you can write to',
    cause: error,
  })
}
