/**
 * Packs a file or folder of the host as a tar archive. Links stay links and are never followed. Entries come in the
 * same order every time, and no more than one chunk of a file is in memory. The tree may change in the meantime, and a
 * sandbox may even be writing to it.
 */
import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, lstat, open, readdir, readlink, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { addAbortSignal, Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { nameProblem, quoteName } from './entry-names.ts'
import { BLOCK_BYTES, encodeHeader, type Header, paddingOf } from './header.ts'
import { LeftOut, type LeftOutReason, type LeftOutReport } from './left-out.ts'
import { OpenFolder } from './open-folder.ts'

export interface PackOptions {
  readonly signal: AbortSignal
  /**
   * The name of the top entry. Default: the name of a file. A folder has no top entry by default, so its entries are
   * the top ones.
   */
  readonly as?: string
  /** Returns whether to leave out an entry, with everything below it. `path` is relative to the folder, with `/`. */
  readonly exclude?: (path: string) => boolean
  /** Beyond them the archive fails with `too_large`. A file of holes can be as long as its writer wants. */
  readonly limits?: { readonly entries: number; readonly bytes: number }
  /** Packs a file with several names once, and its other names as links to it. Default: once for each name. */
  readonly hardLinks?: boolean
}

export interface Packing {
  readonly archive: Readable
  /** Returns what was packed so far. It is complete once the archive has ended. */
  report(): PackReport
}

interface PackReport extends LeftOutReport {
  readonly files: number
  readonly folders: number
  readonly links: number
  /** The bytes that were read. */
  readonly bytes: number
  /** The bytes that the headers state. There are more than were read when files got shorter in the meantime. */
  readonly announcedBytes: number
  /** The first hundred files that changed while they were read. Their packed content matches no single state. */
  readonly changed: readonly string[]
}

const CHUNK_BYTES = 256 * 1024
const LISTED = 100
/** The most files with several names that are recognized. Any further ones are packed once for each name. */
const KNOWN_LINKS = 200_000

/** The path may be a link, because it is the caller's own. Rejects when there is no file or folder. */
export async function packFolder(path: string, options: PackOptions): Promise<Packing> {
  const pack = new Pack(options)
  const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    throw new CraikError(
      'not_found',
      `cannot pack ${path}: ${cause.code === 'ENOENT' ? 'no such file or folder' : cause.code}`,
      {
        hint: 'check the path',
        cause,
      },
    )
  })
  if (!found.isDirectory() && !found.isFile())
    throw new CraikError('usage', `cannot pack ${path}: not a file or folder`, {
      hint: 'name a file or a folder',
    })
  const chunks = found.isDirectory() ? pack.folder(path) : pack.file(path)
  const archive = Readable.from(chunks, { objectMode: false, highWaterMark: CHUNK_BYTES })
  return { archive: addAbortSignal(options.signal, archive), report: () => pack.report() }
}

class Pack {
  readonly #options: PackOptions
  readonly #counts = { files: 0, folders: 0, links: 0, bytes: 0 }
  readonly #leftOut = new LeftOut()
  readonly #changed: string[] = []
  /** The name under which a file was packed, by its device and inode number. */
  readonly #linked = new Map<string, string>()
  #announced = 0

  constructor(options: PackOptions) {
    this.#options = options
  }

  report(): PackReport {
    return {
      ...this.#counts,
      announcedBytes: this.#announced,
      ...this.#leftOut.report(),
      changed: this.#changed,
    }
  }

  async *folder(path: string): AsyncGenerator<Buffer> {
    const root = await OpenFolder.open(path)
    try {
      const top = this.#options.as ?? ''
      if (top !== '') yield this.#folderHeader(top, await lstat(root.at('.'), { bigint: true }))
      yield* this.#entries(root, '', top === '' ? '' : `${top}/`)
    } finally {
      await root.close()
    }
    yield END
  }

  async *file(path: string): AsyncGenerator<Buffer> {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      yield* this.#content(file, this.#options.as ?? basename(resolve(path)), basename(path))
    } finally {
      await file.close()
    }
    yield END
  }

  /** `below` is the folder's path for the caller, and `prefix` is its path in the archive. */
  async *#entries(folder: OpenFolder, below: string, prefix: string): AsyncGenerator<Buffer> {
    for (const raw of (await readdir(folder.path, { encoding: 'buffer' })).sort(Buffer.compare)) {
      const name = raw.toString('utf8')
      const path = `${below}${name}`
      if (!Buffer.from(name).equals(raw)) this.#skip(path, 'name is not UTF-8')
      else if (this.#options.exclude?.(path) !== true)
        yield* this.#entry(folder, name, path, `${prefix}${name}`)
    }
  }

  async *#entry(folder: OpenFolder, name: string, path: string, packed: string): AsyncGenerator<Buffer> {
    const problem = nameProblem(packed)
    if (problem !== undefined) return this.#skip(path, problem)
    const found = await lstat(folder.at(name), { bigint: true }).catch(() => undefined)
    if (found === undefined) this.#skip(path, 'gone')
    else if (found.isFile()) {
      const file = await this.#attempt(path, openFile(folder.at(name)))
      if (file === undefined) return
      try {
        yield* this.#fileEntry(file, packed, path)
      } finally {
        await file.close()
      }
    } else if (found.isDirectory()) {
      const inner = await this.#attempt(path, folder.enter(name))
      if (inner === undefined) return
      try {
        this.#announce(path, 0)
        yield this.#folderHeader(packed, found)
        yield* this.#entries(inner, `${path}/`, `${packed}/`)
      } finally {
        await inner.close()
      }
    } else if (found.isSymbolicLink()) {
      const target = await this.#attempt(path, readlink(folder.at(name), { encoding: 'buffer' }))
      if (target === undefined) return
      const link = target.toString('utf8')
      if (!Buffer.from(link).equals(target)) return this.#skip(path, 'name is not UTF-8')
      this.#announce(path, 0)
      this.#counts.links++
      yield encodeHeader({ ...headerOf(packed, found), kind: 'symlink', link, mode: 0o777 })
    } else this.#skip(path, found.isSocket() ? 'socket' : found.isFIFO() ? 'fifo' : 'device')
  }

  async *#fileEntry(file: FileHandle, packed: string, path: string): AsyncGenerator<Buffer> {
    if (this.#options.hardLinks !== true) return yield* this.#content(file, packed, path)
    const found = await file.stat({ bigint: true })
    const key = `${found.dev}:${found.ino}`
    const first = found.nlink > 1n ? this.#linked.get(key) : undefined
    if (first !== undefined) {
      this.#announce(path, 0)
      this.#counts.links++
      yield encodeHeader({ ...headerOf(packed, found), kind: 'hardlink', link: first })
      return
    }
    if (found.nlink > 1n && this.#linked.size < KNOWN_LINKS) this.#linked.set(key, packed)
    yield* this.#content(file, packed, path)
  }

  /** Yields as many bytes as the header states, whatever happens to the file in the meantime. */
  async *#content(file: FileHandle, packed: string, path: string): AsyncGenerator<Buffer> {
    const before = await file.stat({ bigint: true })
    if (!before.isFile()) return this.#skip(path, 'gone')
    const bytes = Number(before.size)
    this.#announce(path, bytes)
    this.#counts.files++
    yield encodeHeader({ ...headerOf(packed, before), bytes })
    let left = bytes
    while (left > 0) {
      const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, left))
      const { bytesRead } = await file.read(buffer, 0, buffer.length, bytes - left)
      if (bytesRead === 0) break
      left -= bytesRead
      this.#counts.bytes += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
    const after = await file.stat({ bigint: true })
    if (
      (left > 0 || after.size !== before.size || after.mtimeNs !== before.mtimeNs) &&
      this.#changed.length < LISTED
    )
      this.#changed.push(path)
    for (let missing = left + paddingOf(bytes); missing > 0; missing -= CHUNK_BYTES)
      yield Buffer.alloc(Math.min(CHUNK_BYTES, missing))
  }

  /** Adds to the announced bytes and checks the limits, before anything of the entry is read. */
  #announce(path: string, bytes: number): void {
    const { limits } = this.#options
    this.#announced += bytes
    if (limits === undefined) return
    const { files, folders, links } = this.#counts
    const beyond = this.#announced > limits.bytes ? 'bytes' : 'entries'
    if (beyond === 'entries' && files + folders + links < limits.entries) return
    const most = `${limits[beyond].toLocaleString('en')} ${beyond}`
    throw new CraikError('too_large', `cannot pack ${quoteName(path)}: the archive would exceed ${most}`, {
      hint: 'remove files that you do not need, such as caches and sparse files',
      details: { beyond },
    })
  }

  #folderHeader(packed: string, found: BigIntStats): Buffer {
    this.#counts.folders++
    return encodeHeader({ ...headerOf(`${packed}/`, found), kind: 'folder' })
  }

  /** Leaves out and reports what cannot be read, because the rest is still worth packing. */
  async #attempt<T>(path: string, work: Promise<T>): Promise<T | undefined> {
    try {
      return await work
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EMFILE' || code === 'ENFILE' || code === 'EIO') throw error
      this.#skip(path, code === 'EACCES' || code === 'EPERM' ? 'unreadable' : 'gone')
      return undefined
    }
  }

  #skip(path: string, reason: LeftOutReason): void {
    this.#leftOut.add(path, reason)
  }
}

/** The end of an archive: two blocks of zeros. */
const END = Buffer.alloc(2 * BLOCK_BYTES)

/** Opens without blocking, because the file may be a FIFO by now. */
function openFile(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY)
}

/** Leaves out owners, because they mean nothing in the sandbox. */
function headerOf(name: string, found: BigIntStats): Header {
  return {
    kind: 'file',
    name,
    link: '',
    bytes: 0,
    mode: Number(found.mode) & 0o777,
    modifiedAtS: Number(found.mtimeNs / 1_000_000_000n),
  }
}
