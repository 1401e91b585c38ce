/** Reads a tar archive from a stream, entry by entry, with no more than one chunk and one header in memory. */
import { addAbortSignal, type Readable } from 'node:stream'
import { quoteName } from './entry-names.ts'
import {
  BLOCK_BYTES,
  decodeName,
  type Header,
  type HeaderKind,
  malformedArchiveError,
  paddingOf,
  parseDecimalSize,
  parseHeader,
  parsePax,
} from './header.ts'

export interface TarEntry {
  readonly kind: Exclude<HeaderKind, 'extended' | 'long-name' | 'long-link'>
  readonly name: string
  readonly link: string
  readonly bytes: number
  readonly mode: number
  readonly modifiedAtS: number
  /** Must be read before the next entry is requested. Content that is not read is skipped. */
  content(): AsyncGenerator<Buffer>
}

/** Names are short. A header that needs more than this is an attack. */
const EXTENSION_BYTES = 64 * 1024
/** Archivers fill up their last record (10 KiB by default). More than this after the end is something else. */
const TRAILER_BYTES = 1024 * 1024

export async function* readTar(archive: Readable, until: AbortSignal): AsyncGenerator<TarEntry> {
  const source = new Source(addAbortSignal(until, archive))
  try {
    for (let header = await nextHeader(source); header !== undefined; header = await nextHeader(source)) {
      let left = header.bytes
      const content = async function* () {
        while (left > 0) {
          const chunk = await source.readSome(left)
          left -= chunk.length
          yield chunk
        }
      }
      yield { ...header, kind: header.kind as TarEntry['kind'], content }
      while (left > 0) left -= (await source.readSome(left)).length
      await source.take(paddingOf(header.bytes))
    }
    await source.drain(TRAILER_BYTES)
  } finally {
    await source.close()
  }
}

/** Returns the next header, with what the entries in front of it say about it. */
async function nextHeader(source: Source): Promise<Header | undefined> {
  let extension: Extension = {}
  for (;;) {
    const header = parseHeader(await source.take(BLOCK_BYTES))
    if (header === undefined) {
      if (Object.keys(extension).length > 0) throw malformedArchiveError('it ends after an extended header')
      return undefined
    }
    if (header.kind === 'extended' || header.kind === 'long-name' || header.kind === 'long-link') {
      extension = extend(extension, header, await readExtension(source, header))
      continue
    }
    const entry = withKind({ ...header, ...extension })
    if (entry.kind !== 'file' && entry.bytes !== 0)
      throw malformedArchiveError(`${quoteName(entry.name)} is not a file but has content`)
    return entry
  }
}

/**
 * Old archivers mark a folder by its name alone. The whole name counts: the header of a longer one contains its first
 * 100 bytes, and the last of these may be a slash.
 */
function withKind(entry: Header): Header {
  return entry.kind === 'file' && entry.name.endsWith('/') ? { ...entry, kind: 'folder' } : entry
}

interface Extension {
  readonly name?: string
  readonly link?: string
  readonly bytes?: number
}

async function readExtension(source: Source, header: Header): Promise<Buffer> {
  if (header.bytes > EXTENSION_BYTES) throw malformedArchiveError('an extended header is too large')
  const body = await source.take(header.bytes)
  await source.take(paddingOf(header.bytes))
  return body
}

/** Refuses two extensions that state the same thing, because readers could disagree about which one counts. */
function extend(known: Extension, header: Header, body: Buffer): Extension {
  const addition = header.kind === 'extended' ? parsePaxExtension(body) : parseGnuExtension(header.kind, body)
  for (const key of Object.keys(addition))
    if (key in known) throw malformedArchiveError('two headers name the same entry')
  return { ...known, ...addition }
}

function parsePaxExtension(body: Buffer): Extension {
  const records = parsePax(body)
  const [name, link, bytes] = [records.get('path'), records.get('linkpath'), records.get('size')]
  return {
    ...(name === undefined ? {} : { name }),
    ...(link === undefined ? {} : { link }),
    ...(bytes === undefined ? {} : { bytes: parseDecimalSize(bytes) }),
  }
}

/** Removes the NUL at the end. A NUL before it would cut the name for one reader and not for another. */
function parseGnuExtension(kind: HeaderKind, body: Buffer): Extension {
  const value = decodeName(body.at(-1) === 0 ? body.subarray(0, -1) : body)
  return kind === 'long-name' ? { name: value } : { link: value }
}

/** Reads a stream of chunks in the sizes that the caller wants. */
class Source {
  readonly #chunks: AsyncIterator<Buffer>
  #chunk: Buffer = Buffer.alloc(0)

  constructor(stream: Readable) {
    this.#chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  }

  /** Returns exactly this many bytes, for headers. */
  async take(bytes: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for (let missing = bytes; missing > 0; ) {
      const part = await this.readSome(missing)
      parts.push(part)
      missing -= part.length
    }
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
  }

  /** Returns at least one byte and at most this many. */
  async readSome(most: number): Promise<Buffer> {
    if (!(await this.#fill())) throw malformedArchiveError('it ends in the middle of an entry')
    const part = this.#chunk.subarray(0, most)
    this.#chunk = this.#chunk.subarray(part.length)
    return part
  }

  /** Reads to the end, so that the sender can send everything. */
  async drain(most: number): Promise<void> {
    for (let seen = 0; await this.#fill(); this.#chunk = Buffer.alloc(0)) {
      seen += this.#chunk.length
      if (seen > most) throw malformedArchiveError('it contains data after its end')
    }
  }

  /** Closes the stream, so that the sender learns that nothing reads it any longer. */
  async close(): Promise<void> {
    await this.#chunks.return?.()
  }

  async #fill(): Promise<boolean> {
    while (this.#chunk.length === 0) {
      const next = await this.#chunks.next()
      if (next.done === true) return false
      this.#chunk = next.value
    }
    return true
  }
}
