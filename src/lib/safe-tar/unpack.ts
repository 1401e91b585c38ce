/**
 * Unpacks an archive that comes out of a sandbox into a folder of the host. The archive is hostile: nothing is
 * written outside the folder, through a link, over a folder, or beyond the limits, and nothing gets special rights.
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
import { beyond, translateUnpackError } from './unpack-errors.ts'
import { writeWithHoles } from './write-with-holes.ts'

export interface UnpackLimits {
  /** Entries of any kind, those passed over included. */
  readonly entries: number
  /** Bytes of content. */
  readonly bytes: number
}

export interface UnpackOptions {
  /** Leading components to take off every name: 1 when the archive's one folder is to become the target. */
  readonly strip?: number
  /** What a person calls the folder; its path when nothing is said. */
  readonly shownAs?: string
  /** Called after each chunk of content with the bytes so far. */
  readonly onProgress?: (bytes: number) => void
  /** Leaves out entries that the host must not take from a sandbox; without it, every entry is taken. */
  readonly holdBack?: HoldBack
  /**
   * For the disk of a sandbox, in which nobody of the host works: links lead wherever they lead, and modes stay as
   * they are but for set-id bits.
   */
  readonly asDisk?: { readonly owner?: { readonly uid: number; readonly gid: number } }
}

/** The caller's rule for which entries stay out of the folder. */
export interface HoldBack {
  /** Judges a path below the folder, and where a symbolic link there leads to: what of the path is held back, if anything. */
  entry(path: string, linkTarget: string | undefined): string | undefined
  /** Judges a folder that exists on the host, before anything is put in it. */
  folder(folder: OpenFolder): Promise<boolean>
}

/** Why an entry was passed over. */
type SkipReason =
  | LeftOutReason
  | 'link leads outside'
  | 'too many hard links to one file'
  | 'a folder is in the way'
  | 'a special file is in the way'

interface Skipped {
  /** Made fit to be shown: no control characters, cut. */
  readonly path: string
  readonly reason: SkipReason
}

export interface UnpackReport {
  readonly files: number
  readonly folders: number
  readonly links: number
  readonly bytes: number
  /** The first hundred; `skippedCount` is all. */
  readonly skipped: readonly Skipped[]
  readonly skippedCount: number
}

export interface HoldBackReport extends UnpackReport {
  /** The first hundred paths that the rule held back, each once and fit to be shown; `heldBackCount` is all entries. */
  readonly heldBack: readonly string[]
  readonly heldBackCount: number
}

const LISTED = 100
/** Folders whose mode is set at the end; those beyond stay open to their owner. */
const MAX_CLOSED = 100_000

/**
 * The folder has to exist. What is all zeros takes no room. Rejects when the archive is malformed or goes beyond a limit; what was unpacked until
 * then stays, each file whole. Group and others never get the right to write, nobody gets set-id bits; owners are
 * not taken over.
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
    throw translateUnpackError(error, unpacking.current, options.shownAs ?? folder, until)
  } finally {
    await unpacking.close()
  }
}

/** Held back by the caller's rule: what of its path, as the report names it. */
class HeldBack extends Error {
  readonly part: string

  constructor(part: string) {
    super('held back')
    this.part = part
  }
}

/** Passed over, for a reason that the report gives. */
class Skip extends Error {
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
  /** Files that this archive brought, for its hard links. */
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
  /** Of folders that their owner could not fill otherwise: set when everything is in place. */
  readonly #closed: { readonly path: readonly string[]; readonly mode: number }[] = []
  /** Entries of one folder mostly follow each other. */
  #recent: { readonly path: string; readonly folder: OpenFolder } | undefined

  constructor(root: OpenFolder, limits: UnpackLimits, options: UnpackOptions) {
    this.#root = root
    this.#limits = limits
    this.#options = options
  }

  /** The name of the entry that was taken last, fit to be shown. */
  get current(): string {
    return this.#current === '' ? 'the archive' : quoteName(this.#current)
  }

  async take(entry: TarEntry): Promise<void> {
    this.#current = entry.name
    this.#counts.entries++
    if (this.#counts.entries > this.#limits.entries) throw beyond('entries', this.#limits.entries, entry.name)
    // What is passed over counts too: it has to be read all the same.
    this.#counts.announced += entry.bytes
    if (this.#counts.announced > this.#limits.bytes) throw beyond('bytes', this.#limits.bytes, entry.name)
    try {
      if (!isReadable(entry.name) || !isReadable(entry.link)) throw new Skip('name is not UTF-8')
      const path = this.#pathOf(entry.name)
      if (path.length > 0) await this.#writeEntry(entry, path)
      else if (entry.kind !== 'folder')
        throw malformedArchiveError('an entry would replace the target folder')
    } catch (error) {
      if (error instanceof HeldBack) {
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

  /** Innermost first: whoever is closed out of a folder does not get to those below it. */
  async finish(): Promise<void> {
    for (const { path, mode } of this.#closed.reverse()) {
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
    if (problem !== undefined) throw new Skip(problem)
    const strip = this.#options.strip ?? 0
    if (path.length < strip)
      throw malformedArchiveError(`the name ${quoteName(name)} is not below the requested folder`)
    return path.slice(strip)
  }

  async #writeEntry(entry: TarEntry, path: readonly string[]): Promise<void> {
    if (entry.kind === 'device' || entry.kind === 'fifo') throw new Skip(entry.kind)
    const name = path.at(-1)!
    const parents = path.slice(0, -1)
    if (entry.kind === 'symlink' && !this.#isDisk && !staysInside(entry.link, parents.length))
      throw new Skip('link leads outside')
    const linkTarget = entry.kind === 'symlink' ? entry.link : undefined
    const held = this.#options.holdBack?.entry(path.join('/'), linkTarget)
    if (held !== undefined) throw new HeldBack(held)
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

  /** Its owner can always work in it: what belongs into it may come later. */
  async #makeFolder(folder: OpenFolder, path: readonly string[], mode: number): Promise<void> {
    const name = path.at(-1)!
    const existed = await lstat(folder.at(name)).then(
      () => true,
      () => false,
    )
    const made = await this.#enterOrMake(folder, name)
    try {
      if (!existed || this.#isDisk) await made.setMode((mode & this.#modes) | 0o700)
      if (this.#isDisk && (mode & 0o700) !== 0o700 && this.#closed.length < MAX_CLOSED)
        this.#closed.push({ path, mode: mode & this.#modes })
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

  /** Made under another name and moved into place, so that what was there is replaced and never followed. */
  async #putLink(folder: OpenFolder, name: string, make: (at: string) => Promise<void>): Promise<void> {
    const temporary = folder.at(temporaryName())
    await make(temporary)
    try {
      await rename(temporary, folder.at(name))
    } finally {
      // Moving one name of a file onto another name of it leaves both.
      await unlink(temporary).catch(() => {})
    }
    this.#counts.links++
  }

  async #hardLink(folder: OpenFolder, name: string, source: readonly string[]): Promise<void> {
    if (source.length === 0) throw new Skip('link to nothing')
    // A file that was there before is the host's: it would have a second name, by which a sandbox could read or write it.
    if (!this.#isDisk && !this.#written.has(source.join('/'))) throw new Skip('link to nothing')
    const held = await this.#openFolder(source.slice(0, -1), false).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ENOENT' ? new Skip('link to nothing') : error
    })
    try {
      const original = held.at(source.at(-1)!)
      const found = await lstat(original).catch(() => undefined)
      if (found?.isFile() !== true) throw new Skip('link to nothing')
      await this.#putLink(folder, name, (at) => link(original, at))
    } finally {
      await held.close()
    }
  }

  /** The folder with that path, made where it is missing; held until another one is asked for. */
  async #folderAt(path: readonly string[]): Promise<OpenFolder> {
    if (path.length === 0) return this.#root
    const key = path.join('/')
    if (this.#recent?.path === key) return this.#recent.folder
    const recent = this.#recent
    const isBelow = recent !== undefined && key.startsWith(`${recent.path}/`)
    // From there it is one step; from the top it would be as many as it is deep, for each folder of a chain.
    const folder = isBelow
      ? await this.#openFolder(path, true, { depth: recent.path.split('/').length, folder: recent.folder })
      : await this.#openFolder(path, true)
    await recent?.folder.close()
    this.#recent = { path: key, folder }
    return folder
  }

  async #enterOrMake(outer: OpenFolder, name: string): Promise<OpenFolder> {
    if (this.#owner === undefined) return outer.enterOrMake(name)
    try {
      return await outer.enter(name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    const made = await outer.enterOrMake(name)
    await made.setOwner(this.#owner.uid, this.#owner.gid)
    return made
  }

  /** One component after the other, each of which has to be a real folder. The caller closes it. */
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
        throw new HeldBack(path.slice(0, depth + 1).join('/'))
      }
    }
    return folder
  }
}

/** A device, socket or pipe of the machine is not what a copy replaces. */
async function requireReplaceable(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found === undefined || found.isFile() || found.isSymbolicLink() || found.isDirectory()) return
  throw new Skip('a special file is in the way')
}

function temporaryName(): string {
  return `.craik-unpack-${randomUUID()}`
}

/** What the system says about a path that cannot be used as the entry wants; other errors end the unpacking. */
function reasonOf(error: unknown): SkipReason | undefined {
  if (error instanceof Skip) return error.reason
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
