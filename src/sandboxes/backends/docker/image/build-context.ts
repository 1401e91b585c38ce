/** The archive that an engine builds from: files of ours under names and modes of our choice, the same every time. */
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { BLOCK_BYTES, encodeHeader, type Header, paddingOf } from '../../../../lib/safe-tar/header.ts'

export interface ContextFile {
  readonly name: string
  readonly mode: number
  /** The bytes, or where they are. */
  readonly content: Buffer | { readonly path: string }
}

const CHUNK_BYTES = 1024 * 1024
const END = Buffer.alloc(2 * BLOCK_BYTES)

export function buildContext(files: readonly ContextFile[], epochSeconds: number): Readable {
  return Readable.from(entries(files, epochSeconds), { objectMode: false, highWaterMark: CHUNK_BYTES })
}

async function* entries(files: readonly ContextFile[], epochSeconds: number): AsyncGenerator<Buffer> {
  const plain = { link: '', bytes: 0, modifiedAtS: epochSeconds }
  const folders = new Set(files.flatMap(({ name }) => (name.includes('/') ? [name.split('/')[0]!] : [])))
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
  yield END
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
