/**
 * Writes content from a sandbox to the host. Folders stay open and are entered by name, never through a link: in a
 * workspace in place, programs in the sandbox can replace a folder at any moment.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, link, lstat, open, rename, rm, statfs } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import { OpenFolder } from '../../lib/safe-tar/open-folder.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import { formatBytes } from './amounts.ts'

/** At most two batches are in memory: one that is being written and one that is being collected. */
const BATCH_BYTES = 1024 * 1024

/** A name in an open folder. The name may be unused. */
export interface LocalDestination {
  readonly folder: OpenFolder
  readonly name: string
  /** True if the typed path is the folder, and the name is below it. */
  readonly isIn?: boolean
}

/** Resolves a typed path: an existing folder that `name` goes into, or the exact path of the copy. */
export async function openDestination(typed: string, name: string): Promise<LocalDestination> {
  const path = resolve(typed)
  if (path === '/') return { folder: await openFolder(path), name: requireSingleName(name), isIn: true }
  const parent = await openFolder(dirname(path))
  try {
    const folder = await parent.enter(basename(path))
    await parent.close()
    return { folder, name: requireSingleName(name), isIn: true }
  } catch (error) {
    const problem = await explain(error, parent, basename(path), typed)
    if (problem === undefined) return { folder: parent, name: basename(path) }
    await parent.close()
    throw problem
  }
}

/** Resolves a typed path as the folder itself, which does not have to exist. */
export async function openFolderAt(typed: string): Promise<LocalDestination> {
  const path = resolve(typed)
  return { folder: await openFolder(dirname(path)), name: path === '/' ? '.' : basename(path) }
}

/** Opens the folder of that name, and creates it if it is missing. */
export async function enterFolder({ folder, name }: LocalDestination): Promise<OpenFolder> {
  try {
    return await folder.enterOrCreate(name)
  } catch (error) {
    const found = await lstat(folder.at(name)).catch(() => undefined)
    if (found?.isSymbolicLink()) throw isLink(name)
    if (found?.isDirectory() === false)
      throw new CraikError('conflict', `cannot create the folder ${name}: a file of that name exists`, {
        hint: 'choose another name, or remove the file first',
      })
    throw translate(error, name)
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
  if (found?.isSymbolicLink()) return isLink(typed)
  if (found?.isDirectory()) return translate(error, typed)
  if (typed.endsWith('/'))
    return new CraikError('usage', `the destination folder ${typed} does not exist`, {
      hint: `create the folder first:  mkdir -p ${quoteArgument(typed)}`,
    })
  return undefined
}

/** Accepts a name from a sandbox only if it is a single name that cannot lead elsewhere. */
function requireSingleName(name: string): string {
  if (name !== '' && name !== '.' && name !== '..' && !name.includes('/') && !name.includes('\0')) return name
  throw new CraikError('usage', 'the destination needs a file name', {
    hint: 'add a name to the path, such as ./copy',
  })
}

async function openFolder(path: string): Promise<OpenFolder> {
  try {
    return await OpenFolder.open(path)
  } catch (error) {
    throw translate(error, path)
  }
}

export async function freeBytes(folder: OpenFolder): Promise<number> {
  const { bavail, bsize } = await statfs(folder.path)
  return bavail * bsize
}

/**
 * Writes the bytes to a file beside the final one and then renames it. It replaces only a file or link of that name.
 */
export class LocalFile implements AsyncDisposable {
  readonly #at: LocalDestination
  readonly #temporary: string
  readonly #file: FileHandle
  #gathered: Buffer[] = []
  #gatheredBytes = 0
  #isWriting = false
  /** The write of the previous batch. It stays rejected after a failure. */
  #written: Promise<void> = Promise.resolve()
  #done = false

  private constructor(at: LocalDestination, temporary: string, file: FileHandle) {
    this.#at = at
    this.#temporary = temporary
    this.#file = file
  }

  /** Refuses to replace anything but a file or a link, and refuses content that does not fit on the disk. */
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
      throw translate(error, at.name)
    }
  }

  /** May return before the bytes are written. The next call reports a failed write, at the latest `commit`. */
  async write(chunk: Buffer): Promise<void> {
    this.#gathered.push(chunk)
    this.#gatheredBytes += chunk.length
    if (!this.#isWriting || this.#gatheredBytes >= BATCH_BYTES) await this.#writeGathered()
  }

  /**
   * Collects chunks while the previous batch is written. Chunks are small, and one write of many takes as long as one
   * of a single chunk.
   */
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
        throw translate(error, this.#at.name)
      },
    )
    // The next call that awaits it gets the error.
    this.#written.catch(() => {})
  }

  /**
   * Gives the file its final name. Removes the bits of `mode` that could grant privileges. With `keep`, an existing
   * entry of that name stays and this fails.
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
      throw translate(error, this.#at.name)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#written.catch(() => {})
    await this.#file.close()
    if (!this.#done) await rm(this.#temporary, { force: true })
  }
}

/** Accepts an unused name, a file or a link. Replacing a device with a file would break the device. */
async function requireReplaceable({ folder, name }: LocalDestination): Promise<void> {
  const found = await lstat(folder.at(name)).catch(() => undefined)
  if (found === undefined || found.isFile() || found.isSymbolicLink()) return
  if (found.isDirectory())
    throw new CraikError('conflict', `${name} is a folder, and a file cannot replace a folder`, {
      hint: 'choose another name, or remove the folder first',
    })
  const kind = found.isSocket() ? 'socket' : found.isFIFO() ? 'pipe' : 'device'
  throw new CraikError('conflict', `the destination ${name} is a ${kind}, not a regular file`, {
    hint: 'choose the name of a regular file, or an unused name',
  })
}

function isLink(name: string): CraikError {
  return new CraikError(
    'usage',
    `refusing to write through the symbolic link ${name}: its target could change`,
    { hint: 'use the path of the target (readlink -f shows it)' },
  )
}

function translate(error: unknown, name: string): CraikError {
  if (error instanceof CraikError) return error
  const { code = 'unknown error' } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new CraikError('disk_full', `no space left to write ${name}`, { cause: error })
  if (code === 'EISDIR' || code === 'ENOTEMPTY' || code === 'EEXIST')
    return new CraikError('conflict', `the name ${name} is already in use`, {
      hint: 'choose another name, or remove what has that name first',
      cause: error,
    })
  const why = code === 'ENOENT' || code === 'ENOTDIR' ? 'the folder does not exist' : code
  return new CraikError('usage', `cannot write ${name}: ${why}`, {
    hint: 'choose an existing folder that you can write to',
    cause: error,
  })
}
