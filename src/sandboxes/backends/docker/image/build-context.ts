/** Creates the archive that an engine builds from: files under chosen names and modes, identical every time. */
import { lstat, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { BLOCK_BYTES, encodeHeader, type Header, paddingOf } from '../../../../lib/safe-tar/header.ts'

export interface ContextFile {
  readonly name: string
  readonly mode: number
  /** The bytes, or the path of a file with them. */
  readonly content: Buffer | { readonly path: string }
}

const CHUNK_BYTES = 1024 * 1024
const END = Buffer.alloc(2 * BLOCK_BYTES)

/** A host folder with all its files. */
export interface ContextTree {
  readonly name: string
  readonly path: string
}

export function dockerfileOf(text: string): ContextFile {
  return { name: 'Dockerfile', mode: 0o644, content: Buffer.from(text) }
}

export function buildContext(
  files: readonly ContextFile[],
  epochSeconds: number,
  trees: readonly ContextTree[] = [],
): Readable {
  const all = entries(files, trees, epochSeconds)
  return Readable.from(all, { objectMode: false, highWaterMark: CHUNK_BYTES })
}

async function* entries(
  files: readonly ContextFile[],
  trees: readonly ContextTree[],
  epochSeconds: number,
): AsyncGenerator<Buffer> {
  const plain = { link: '', bytes: 0, modifiedAtS: epochSeconds }
  const folders = new Set(files.flatMap(({ name }) => foldersOf(name)))
  for (const folder of folders)
    yield encodeHeader({ ...plain, kind: 'folder', name: `${folder}/`, mode: 0o755 })
  for (const { name, mode, content } of files) {
    const header: Header = { ...plain, kind: 'file', name, mode }
    if (Buffer.isBuffer(content)) {
      yield encodeHeader({ ...header, bytes: content.length })
      yield content
      yield Buffer.alloc(paddingOf(content.length))
    } else yield* fileEntry(header, content.path)
  }
  for (const { name, path } of trees) yield* treeEntries(name, path, epochSeconds)
  yield END
}

/** Returns `a` and `a/b` for `a/b/c`. An engine would create missing folders with its own modes. */
function foldersOf(name: string): string[] {
  const parts = name.split('/').slice(0, -1)
  return parts.map((_, at) => parts.slice(0, at + 1).join('/'))
}

/**
 * Yields entries sorted by name, so that neither the date nor the file system changes the archive. Throws for anything
 * that is not a file or folder.
 */
async function* treeEntries(name: string, path: string, epochSeconds: number): AsyncGenerator<Buffer> {
  const found = await lstat(path)
  const plain = { link: '', bytes: 0, modifiedAtS: epochSeconds, mode: found.mode & 0o777 }
  if (found.isFile()) return yield* fileEntry({ ...plain, kind: 'file', name }, path)
  if (!found.isDirectory()) throw new Error(`${path} is neither a file nor a folder`)
  yield encodeHeader({ ...plain, kind: 'folder', name: `${name}/` })
  for (const entry of (await readdir(path)).sort())
    yield* treeEntries(`${name}/${entry}`, join(path, entry), epochSeconds)
}

async function* fileEntry(header: Header, path: string): AsyncGenerator<Buffer> {
  await using file = await open(path, 'r')
  const { size: bytes } = await file.stat()
  yield encodeHeader({ ...header, bytes })
  let sent = 0
  for await (const chunk of file.createReadStream({ highWaterMark: CHUNK_BYTES, autoClose: false })) {
    sent += (chunk as Buffer).length
    yield chunk as Buffer
  }
  if (sent !== bytes) throw new Error(`${path} changed while it was read`)
  yield Buffer.alloc(paddingOf(bytes))
}
