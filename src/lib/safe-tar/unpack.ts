/**
 * Unpacks an archive from a sandbox into a folder of the host. The archive may be hostile. Nothing is written outside
 * of the folder, through a link, over a folder, or beyond the limits, and nothing gets special rights.
 */
import { randomUUID } from 'node:crypto'
import { constants, lchown, link, lstat, open, rename, symlink, unlink } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { cleanName, componentsOf, isReadable, nameProblem, quoteName, staysInside } from './entry-names.ts'
import { malformedArchiveError } from './header.ts'
import type { LeftOutReason } from './left-out.ts'
import { OpenFolder } from './open-folder.ts'
import { readTar, type TarEntry } from './read-tar.ts'
import { limitError, translateUnpackError } from './unpack-errors.ts'
import { writeWithHoles } from './write-with-holes.ts'

export interface UnpackLimits {
  /** Entries of any kind, including skipped ones. */
  readonly entries: number
  /** Bytes of content. */
  readonly bytes: number
}

export interface UnpackOptions {
  /** Leading components to remove from every name: 1 when the archive's single folder becomes the target. */
  readonly strip?: number
  /** The name of the folder in messages (default: its path). */
  readonly displayName?: string
  /** Called after each chunk of content with the bytes so far. */
  readonly onProgress?: (bytes: number) => void
  /** Leaves out entries that the host must not accept from a sandbox. Without it, every entry is accepted. */
  readonly holdBack?: HoldBack
  /**
   * For the disk of a sandbox, which no user of the host works in. Links can lead anywhere, and modes stay as they are
   * except for set-id bits.
   */
  readonly asDisk?: { readonly owner?: { readonly uid: number; readonly gid: number } }
}

/** The caller's rule for which entries stay out of the folder. */
export interface HoldBack {
  /**
   * Checks a path below the folder, and the target of a symbolic link there. Returns the part of the path that is held
   * back, or `undefined`.
   */
  entry(path: string, linkTarget: string | undefined): string | undefined
  /** Returns whether a folder on the host is held back. Called before anything is written to it. */
  folder(folder: OpenFolder): Promise<boolean>
}

/** The reason why an entry was skipped. */
type SkipReason =
  | LeftOutReason
  | 'link leads outside'
  | 'too many hard links to one file'
  | 'a folder is in the way'
  | 'a special file is in the way'

interface Skipped {
  /** Safe to display: shortened, and without control characters. */
  readonly path: string
  readonly reason: SkipReason
}

export interface UnpackReport {
  readonly files: number
  readonly folders: number
  readonly links: number
  readonly bytes: number
  /** The first hundred. `skippedCount` counts all. */
  readonly skipped: readonly Skipped[]
  readonly skippedCount: number
}

export interface HoldBackReport extends UnpackReport {
  /**
   * The first hundred paths that the rule held back, each once and safe to display. `heldBackCount` counts all entries.
   */
  readonly heldBack: readonly string[]
  readonly heldBackCount: number
}

const LISTED = 100
/** The most folders whose mode is set at the end. Any further ones stay open to their owner. */
const MAX_CLOSED = 100_000

/**
 * Unpacks into a folder that must exist. Zeros take no disk space. Rejects when the archive is malformed or exceeds a
 * limit. Everything that was unpacked before that stays, and each file is complete. Nothing gets set-id bits, and
 * owners are not taken from the archive. Without `asDisk`, group and others never get write permission.
 */
export async function unpackInto(
  folder: string,
  archive: Readable,
  limits: UnpackLimits,
  until: AbortSignal,
  options: UnpackOptions = {},
): Promise<HoldBackReport> {
  const root = await OpenFolder.open(folder).catch((cause: NodeJS.ErrnoException) => {
    archive.destroy()
    throw new CraikError('not_found', `cannot unpack into ${folder}: no such folder (${cause.code})`, {
      cause,
    })
  })
  const unpacking = new Unpacking(root, limits, options)
  try {
    for await (const entry of readTar(archive, until)) await unpacking.take(entry)
    await unpacking.finish()
    return unpacking.report()
  } catch (error) {
    throw translateUnpackError(error, unpacking.current, options.displayName ?? folder, until)
  } finally {
    await unpacking.close()
  }
}

/** Held back by the caller's rule. `part` is the part of the path that the report names. */
class HeldBackError extends Error {
  readonly part: string

  constructor(part: string) {
    super('held back')
    this.part = part
  }
}

/** Skipped, for a reason that the report gives. */
class SkipError extends Error {
  readonly reason: SkipReason

  constructor(reason: SkipReason) {
    super(reason)
    this.reason = reason
  }
}

class Unpacking {
  readonly #root: OpenFolder
  readonly #limits: UnpackLimits
  readonly #options: UnpackOptions
  /** Files from this archive, for its hard links. */
  readonly #written = new Set<string>()
  readonly #counts = {
    entries: 0,
    announced: 0,
    files: 0,
    folders: 0,
    links: 0,
    bytes: 0,
    skipped: 0,
    held: 0,
  }
  readonly #skipped: Skipped[] = []
  readonly #heldBack = new Set<string>()
  #current = ''
  /** Folders whose mode would prevent their owner from filling them. The mode is set when everything is in place. */
  readonly #closed = new Map<string, { readonly path: readonly string[]; readonly mode: number }>()
  /** The folder of the last entry, because entries of one folder mostly follow each other. */
  #recent: { readonly path: string; readonly folder: OpenFolder } | undefined

  constructor(root: OpenFolder, limits: UnpackLimits, options: UnpackOptions) {
    this.#root = root
    this.#limits = limits
    this.#options = options
  }

  /** The name of the last entry, safe to display. */
  get current(): string {
    return this.#current === '' ? 'the archive' : quoteName(this.#current)
  }

  async take(entry: TarEntry): Promise<void> {
    this.#current = entry.name
    this.#counts.entries++
    if (this.#counts.entries > this.#limits.entries)
      throw limitError('entries', this.#limits.entries, entry.name)
    // A skipped entry counts too, because it has to be read all the same.
    this.#counts.announced += entry.bytes
    if (this.#counts.announced > this.#limits.bytes) throw limitError('bytes', this.#limits.bytes, entry.name)
    try {
      if (!isReadable(entry.name) || !isReadable(entry.link)) throw new SkipError('name is not UTF-8')
      const path = this.#pathOf(entry.name)
      if (path.length > 0) await this.#writeEntry(entry, path)
      else if (entry.kind !== 'folder')
        throw malformedArchiveError('an entry would replace the target folder')
    } catch (error) {
      if (error instanceof HeldBackError) {
        this.#counts.held++
        if (this.#heldBack.size < LISTED) this.#heldBack.add(cleanName(error.part))
        return
      }
      const reason = reasonOf(error)
      if (reason === undefined) throw error
      this.#counts.skipped++
      if (this.#skipped.length < LISTED) this.#skipped.push({ path: quoteName(entry.name), reason })
    }
  }

  /** Sets the modes of the innermost folders first, because a closed folder blocks access to those below it. */
  async finish(): Promise<void> {
    const closed = [...this.#closed.values()].sort((a, b) => b.path.length - a.path.length)
    for (const { path, mode } of closed) {
      const folder = await this.#openFolder(path, false)
      try {
        await folder.setMode(mode)
      } finally {
        await folder.close()
      }
    }
  }

  report(): HoldBackReport {
    const { files, folders, links, bytes, skipped, held } = this.#counts
    return {
      files,
      folders,
      links,
      bytes,
      skipped: this.#skipped,
      skippedCount: skipped,
      heldBack: [...this.#heldBack],
      heldBackCount: held,
    }
  }

  async close(): Promise<void> {
    await this.#recent?.folder.close()
    this.#recent = undefined
    await this.#root.close()
  }

  get #isDisk(): boolean {
    return this.#options.asDisk !== undefined
  }

  get #owner() {
    return this.#options.asDisk?.owner
  }

  get #modes(): number {
    return this.#isDisk ? 0o777 : 0o755
  }

  async #own(give: () => Promise<void>): Promise<void> {
    if (this.#owner !== undefined) await give()
  }

  #pathOf(name: string): readonly string[] {
    const path = componentsOf(name)
    const problem = nameProblem(path.join('/'))
    if (problem !== undefined) throw new SkipError(problem)
    const strip = this.#options.strip ?? 0
    if (path.length < strip)
      throw malformedArchiveError(`the name ${quoteName(name)} is not below the requested folder`)
    return path.slice(strip)
  }

  async #writeEntry(entry: TarEntry, path: readonly string[]): Promise<void> {
    if (entry.kind === 'device' || entry.kind === 'fifo') throw new SkipError(entry.kind)
    const name = path.at(-1)!
    const parents = path.slice(0, -1)
    if (entry.kind === 'symlink' && !this.#isDisk && !staysInside(entry.link, parents.length))
      throw new SkipError('link leads outside')
    const linkTarget = entry.kind === 'symlink' ? entry.link : undefined
    const held = this.#options.holdBack?.entry(path.join('/'), linkTarget)
    if (held !== undefined) throw new HeldBackError(held)
    const folder = await this.#folderAt(parents)
    if (entry.kind !== 'folder' && !this.#isDisk) await requireReplaceable(folder.at(name))
    if (entry.kind === 'folder') await this.#makeFolder(folder, path, entry.mode)
    else if (entry.kind === 'file') {
      await this.#writeFile(folder, name, entry)
      if (!this.#isDisk) this.#written.add(path.join('/'))
    } else if (entry.kind === 'symlink')
      await this.#putLink(folder, name, async (at) => {
        await symlink(entry.link, at)
        await this.#own(() => lchown(at, this.#owner!.uid, this.#owner!.gid))
      })
    else await this.#hardLink(folder, name, this.#pathOf(entry.link))
  }

  /** Creates a folder in which its owner can always work, because its content may come later. */
  async #makeFolder(folder: OpenFolder, path: readonly string[], mode: number): Promise<void> {
    const name = path.at(-1)!
    const existed = await lstat(folder.at(name)).then(
      () => true,
      () => false,
    )
    const made = await this.#enterOrMake(folder, name)
    try {
      if (!existed || this.#isDisk) await made.setMode((mode & this.#modes) | 0o700)
      // An archive can list a folder again. Its last mode counts.
      this.#closed.delete(path.join('/'))
      if (this.#isDisk && (mode & 0o700) !== 0o700 && this.#closed.size < MAX_CLOSED)
        this.#closed.set(path.join('/'), { path, mode: mode & this.#modes })
    } finally {
      await made.close()
    }
    this.#counts.folders++
  }

  async #writeFile(folder: OpenFolder, name: string, entry: TarEntry): Promise<void> {
    const temporary = folder.at(temporaryName())
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    const file = await open(temporary, flags, 0o600)
    try {
      let at = 0
      for await (const chunk of entry.content()) {
        await writeWithHoles(file, chunk, at)
        at += chunk.length
        this.#counts.bytes += chunk.length
        this.#options.onProgress?.(this.#counts.bytes)
      }
      await file.truncate(at)
      await this.#own(() => file.chown(this.#owner!.uid, this.#owner!.gid))
      await file.chmod(entry.mode & this.#modes)
      await file.utimes(entry.modifiedAtS, entry.modifiedAtS)
      await rename(temporary, folder.at(name))
    } catch (error) {
      await unlink(temporary).catch(() => {})
      throw error
    } finally {
      await file.close()
    }
    this.#counts.files++
  }

  /**
   * Creates the link under another name and moves it into place. So an existing entry is replaced and never followed.
   */
  async #putLink(folder: OpenFolder, name: string, make: (at: string) => Promise<void>): Promise<void> {
    const temporary = folder.at(temporaryName())
    await make(temporary)
    try {
      await rename(temporary, folder.at(name))
    } finally {
      // Renaming one name of a file to another name of the same file keeps both.
      await unlink(temporary).catch(() => {})
    }
    this.#counts.links++
  }

  async #hardLink(folder: OpenFolder, name: string, source: readonly string[]): Promise<void> {
    if (source.length === 0) throw new SkipError('link to nothing')
    // A file that existed before belongs to the host. A second name would let a sandbox read or write it.
    if (!this.#isDisk && !this.#written.has(source.join('/'))) throw new SkipError('link to nothing')
    const held = await this.#openFolder(source.slice(0, -1), false).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ENOENT' ? new SkipError('link to nothing') : error
    })
    try {
      const original = held.at(source.at(-1)!)
      const found = await lstat(original).catch(() => undefined)
      if (found?.isFile() !== true) throw new SkipError('link to nothing')
      await this.#putLink(folder, name, (at) => link(original, at))
    } finally {
      await held.close()
    }
  }

  /** Returns the folder with that path, and creates missing folders. It stays open until another one is requested. */
  async #folderAt(path: readonly string[]): Promise<OpenFolder> {
    if (path.length === 0) return this.#root
    const key = path.join('/')
    if (this.#recent?.path === key) return this.#recent.folder
    const recent = this.#recent
    const isBelow = recent !== undefined && key.startsWith(`${recent.path}/`)
    // From the last folder it is one step. From the top it would be as many steps as the path is deep, for each folder
    // of a chain.
    const folder = isBelow
      ? await this.#openFolder(path, true, { depth: recent.path.split('/').length, folder: recent.folder })
      : await this.#openFolder(path, true)
    await recent?.folder.close()
    this.#recent = { path: key, folder }
    return folder
  }

  async #enterOrMake(outer: OpenFolder, name: string): Promise<OpenFolder> {
    if (this.#owner === undefined) return outer.enterOrCreate(name)
    try {
      return await outer.enter(name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    const made = await outer.enterOrCreate(name)
    await made.setOwner(this.#owner.uid, this.#owner.gid)
    return made
  }

  /** Opens one component after the other, and each must be a real folder. The caller closes the result. */
  async #openFolder(
    path: readonly string[],
    make: boolean,
    from: { readonly depth: number; readonly folder: OpenFolder } = { depth: 0, folder: this.#root },
  ): Promise<OpenFolder> {
    let folder = await from.folder.enter('.')
    for (let depth = from.depth; depth < path.length; depth++) {
      const outer = folder
      const name = path[depth]!
      try {
        folder = make ? await this.#enterOrMake(outer, name) : await outer.enter(name)
      } finally {
        await outer.close()
      }
      if (make && (await this.#options.holdBack?.folder(folder))) {
        await folder.close()
        throw new HeldBackError(path.slice(0, depth + 1).join('/'))
      }
    }
    return folder
  }
}

/** A copy does not replace a device, socket or pipe of the host. */
async function requireReplaceable(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found === undefined || found.isFile() || found.isSymbolicLink() || found.isDirectory()) return
  throw new SkipError('a special file is in the way')
}

function temporaryName(): string {
  return `.craik-unpack-${randomUUID()}`
}

/** Returns why the entry cannot use its path, according to the system. Other errors end the unpacking. */
function reasonOf(error: unknown): SkipReason | undefined {
  if (error instanceof SkipError) return error.reason
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ELOOP':
    case 'ENOTDIR':
      return 'a link or file is in the way'
    case 'ENAMETOOLONG':
      return 'name is too long'
    case 'EMLINK':
      return 'too many hard links to one file'
    case 'EISDIR':
    case 'ENOTEMPTY':
    case 'EEXIST':
      return 'a folder is in the way'
    default:
      return undefined
  }
}
