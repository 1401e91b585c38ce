/**
 * Passes an archive on to another unpacker, entry by entry. The new archive contains files, folders and links below one
 * folder and nothing else. The source may be hostile, and no more than one chunk of it is in memory.
 */
import { addAbortSignal, Readable } from 'node:stream'
import { componentsOf, isReadable, nameProblem, quoteName } from './entry-names.ts'
import { BLOCK_BYTES, encodeHeader, type Header, malformedArchiveError, paddingOf } from './header.ts'
import { LeftOut, type LeftOutReason, type LeftOutReport } from './left-out.ts'
import { readTar, type TarEntry } from './read-tar.ts'
import { limitError } from './unpack-errors.ts'

export interface RewriteOptions {
  readonly signal: AbortSignal
  readonly limits: { readonly entries: number; readonly bytes: number }
  /** Returns whether to leave out an entry, with everything below it. `path` is relative, with `/`. */
  readonly exclude?: (path: string) => boolean
  readonly owner?: Header['owner']
}

export interface Rewriting {
  readonly archive: Readable
  /** Returns what was passed on so far. It is complete once the archive has ended. */
  report(): RewriteReport
}

interface RewriteReport extends LeftOutReport {
  readonly files: number
  readonly folders: number
  readonly links: number
  readonly bytes: number
  readonly announcedBytes: number
  /** Always empty, because the archive does not say whether something changed in the meantime. */
  readonly changed: readonly []
}

const CHUNK_BYTES = 256 * 1024
const END = Buffer.alloc(2 * BLOCK_BYTES)

/** The new archive fails when the source is malformed or exceeds a limit. */
export function rewriteTar(source: Readable, options: RewriteOptions): Rewriting {
  const rewrite = new Rewrite(options)
  const archive = Readable.from(rewrite.chunks(source), { objectMode: false, highWaterMark: CHUNK_BYTES })
  return { archive: addAbortSignal(options.signal, archive), report: () => rewrite.report() }
}

class Rewrite {
  readonly #options: RewriteOptions
  readonly #counts = { entries: 0, read: 0, announced: 0, files: 0, folders: 0, links: 0, bytes: 0 }
  readonly #leftOut = new LeftOut()
  /** The links of the archive so far. They must not redirect the unpacker. */
  readonly #links = new Set<string>()

  constructor(options: RewriteOptions) {
    this.#options = options
  }

  report(): RewriteReport {
    const { files, folders, links, bytes, announced } = this.#counts
    return {
      files,
      folders,
      links,
      bytes,
      announcedBytes: announced,
      ...this.#leftOut.report(),
      changed: [],
    }
  }

  async *chunks(source: Readable): AsyncGenerator<Buffer> {
    const { limits, signal } = this.#options
    for await (const entry of readTar(source, signal)) {
      this.#counts.entries++
      if (this.#counts.entries > limits.entries) throw limitError('entries', limits.entries, entry.name)
      // An entry that is left out counts too, because it has to be read all the same.
      this.#counts.read += entry.bytes
      if (this.#counts.read > limits.bytes) throw limitError('bytes', limits.bytes, entry.name)
      const header = this.#headerFor(entry)
      if (header === undefined) continue
      this.#counts.announced += entry.bytes
      yield encodeHeader(header)
      for await (const chunk of entry.content()) {
        this.#counts.bytes += chunk.length
        yield chunk
      }
      const padding = paddingOf(entry.bytes)
      if (padding > 0) yield Buffer.alloc(padding)
    }
    yield END
  }

  #headerFor(entry: TarEntry): Header | undefined {
    if (!isReadable(entry.name) || !isReadable(entry.link)) return this.#skip(entry, 'name is not UTF-8')
    const path = componentsOf(entry.name)
    if (path.length === 0) {
      if (entry.kind === 'folder') return undefined
      throw malformedArchiveError('an entry would replace the target folder')
    }
    const name = path.join('/')
    const problem = nameProblem(name)
    if (problem !== undefined) return this.#skip(entry, problem)
    if (this.#isLeftOut(path)) return undefined
    if (entry.kind === 'device' || entry.kind === 'fifo') return this.#skip(entry, entry.kind)
    if (this.#leadsThroughLink(path)) return this.#skip(entry, 'a link or file is in the way')
    const { kind, bytes, modifiedAtS } = entry
    const { owner } = this.#options
    const plain = { link: '', bytes, mode: entry.mode & 0o777, modifiedAtS, ...(owner && { owner }) }
    if (kind === 'folder') {
      // A folder must not take the place of an earlier link.
      if (this.#links.has(name)) return this.#skip(entry, 'a link or file is in the way')
      this.#counts.folders++
      return { ...plain, kind, name: `${name}/` }
    }
    this.#links.delete(name)
    if (kind === 'file') {
      this.#counts.files++
      return { ...plain, kind, name }
    }
    const link = kind === 'hardlink' ? this.#original(entry.link) : entry.link
    if (link === undefined) return this.#skip(entry, 'link to nothing')
    if (kind === 'symlink') this.#links.add(name)
    this.#counts.links++
    return { ...plain, kind, name, link }
  }

  /**
   * Returns the new name of a hard link's target. Returns `undefined` when the target was left out, or is a link
   * itself.
   */
  #original(link: string): string | undefined {
    const path = componentsOf(link)
    const name = path.join('/')
    const isNone =
      path.length === 0 ||
      nameProblem(name) !== undefined ||
      this.#links.has(name) ||
      this.#isLeftOut(path) ||
      this.#leadsThroughLink(path)
    return isNone ? undefined : name
  }

  #isLeftOut(path: readonly string[]): boolean {
    const { exclude } = this.#options
    return exclude !== undefined && path.some((_, at) => exclude(path.slice(0, at + 1).join('/')))
  }

  #leadsThroughLink(path: readonly string[]): boolean {
    if (this.#links.size === 0) return false
    return path.slice(0, -1).some((_, at) => this.#links.has(path.slice(0, at + 1).join('/')))
  }

  #skip({ name }: TarEntry, reason: LeftOutReason): undefined {
    this.#leftOut.add(quoteName(name), reason)
  }
}
