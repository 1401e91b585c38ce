/** Writes the archive of a snapshot, compressed and hashed, and reads it back only if it is unchanged. */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { CraikError } from '../../errors.ts'
import { componentsOf } from '../../lib/safe-tar/entry-names.ts'
import { readTar } from '../../lib/safe-tar/read-tar.ts'
import { asWriteError } from './snapshot-files.ts'
import { invalidSnapshotError, SNAPSHOT_LIMITS, type SnapshotManifest } from './snapshot-manifest.ts'

export interface WrittenArchive {
  readonly bytes: number
  readonly sha256: string
}

/** Compresses the source to a new file. The file is synced to the disk when this resolves. */
export async function writeArchive(
  path: string,
  source: Readable,
  until: AbortSignal,
): Promise<WrittenArchive> {
  return write(path, [source, createZstdCompress()], until)
}

/** Copies the source unchanged, because it is compressed already. */
export async function copyArchive(
  path: string,
  source: Readable,
  until: AbortSignal,
): Promise<WrittenArchive> {
  return write(path, [source], until)
}

async function write(
  path: string,
  from: readonly (Readable | Transform)[],
  until: AbortSignal,
): Promise<WrittenArchive> {
  const digest = new Digesting(SNAPSHOT_LIMITS.archiveBytes)
  // `flush` syncs the file before it closes.
  const file = createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true })
  try {
    await pipeline([...from, digest, file] as never, { signal: until })
  } catch (error) {
    if (until.aborted) throw until.reason
    throw asWriteError(error)
  }
  return digest.result()
}

/**
 * Reads the archive's content and checks it. The digest is known only at the end, and the content must not be used
 * before.
 */
export function readArchive(
  file: FileHandle,
  manifest: SnapshotManifest,
  until: AbortSignal,
): CheckedArchive {
  const digest = new Digesting(manifest.archive.bytes)
  const content = createZstdDecompress()
  const done = pipeline([file.createReadStream(), digest, content] as never, { signal: until })
  done.catch(() => {})
  return {
    content,
    async waitUntilVerified() {
      await done.catch((cause) => {
        if (until.aborted) throw until.reason
        throw (cause as NodeJS.ErrnoException).syscall === undefined ? archiveChangedError(cause) : cause
      })
      const { bytes, sha256 } = digest.result()
      if (bytes !== manifest.archive.bytes || sha256 !== manifest.archive.sha256) throw archiveChangedError()
    },
  }
}

export interface CheckedArchive {
  /** The tar archive. */
  readonly content: Readable
  /** Call this after all of the content was read. */
  waitUntilVerified(): Promise<void>
}

/** Compares an archive of unknown origin with its manifest. Unpacks nothing. */
export async function examineArchive(
  content: Readable,
  manifest: SnapshotManifest,
  until: AbortSignal,
): Promise<void> {
  const seen = { files: 0, folders: 0, links: 0, bytes: 0 }
  for await (const entry of readTar(content, until)) {
    if (componentsOf(entry.name).length === 0 && entry.kind !== 'folder')
      throw invalidSnapshotError('an entry would replace the home')
    if (entry.kind === 'file') {
      seen.files++
      seen.bytes += entry.bytes
    } else if (entry.kind === 'folder') seen.folders++
    else if (entry.kind === 'symlink' || entry.kind === 'hardlink') seen.links++
    else throw invalidSnapshotError(`it contains a ${entry.kind}`)
    if (entry.kind === 'hardlink') componentsOf(entry.link)
    for (const [what, most] of Object.entries(limitsOf(manifest)))
      if (seen[what as keyof typeof seen] > most)
        throw invalidSnapshotError(`it contains more ${what} than its manifest says`)
  }
  for (const [what, reply] of Object.entries(limitsOf(manifest)))
    if (seen[what as keyof typeof seen] !== reply)
      throw invalidSnapshotError(`it contains fewer ${what} than its manifest says`)
}

function limitsOf({ content: { files, folders, links, bytes } }: SnapshotManifest) {
  return { files, folders, links, bytes }
}

/**
 * Returns why an archive could not be unpacked. Damage can cause any error, so this hashes the file again: only a
 * different digest means that it was changed. `file` is open, and stays open.
 */
export async function explainUnpackError(
  error: unknown,
  file: FileHandle,
  { name, archive }: Pick<SnapshotManifest, 'name' | 'archive'>,
  until: AbortSignal,
): Promise<unknown> {
  const sha256 = createHash('sha256')
  for await (const chunk of file.createReadStream({ start: 0, autoClose: false })) {
    until.throwIfAborted()
    sha256.update(chunk)
  }
  if (sha256.digest('hex') !== archive.sha256) return archiveChangedError(error)
  const [code, why] =
    error instanceof CraikError ? [error.code, error.message] : (['boundary_failed', String(error)] as const)
  return new CraikError(code, `cannot unpack snapshot ${name}, although its archive is intact: ${why}`, {
    hint: 'use another snapshot:  craik snapshot list   (nothing was changed)',
    cause: error,
  })
}

function archiveChangedError(cause?: unknown): CraikError {
  return new CraikError('tampered', 'the archive of the snapshot was changed or damaged', {
    hint: 'use another snapshot:  craik snapshot list   (nothing was changed)',
    cause,
  })
}

/** Passes everything through, and counts and hashes it. */
class Digesting extends Transform {
  readonly #hash = createHash('sha256')
  readonly #most: number
  #bytes = 0
  #sha256: string | undefined

  constructor(most: number) {
    super()
    this.#most = most
  }

  override _transform(chunk: Buffer, _encoding: string, done: (error: Error | null, data?: Buffer) => void) {
    this.#bytes += chunk.length
    if (this.#bytes > this.#most) {
      done(
        new CraikError('too_large', `the snapshot is larger than ${this.#most.toLocaleString('en')} bytes`, {
          hint: 'remove files that you do not need from the sandbox, then take another snapshot',
        }),
      )
      return
    }
    this.#hash.update(chunk)
    done(null, chunk)
  }

  result(): WrittenArchive {
    this.#sha256 ??= this.#hash.digest('hex')
    return { bytes: this.#bytes, sha256: this.#sha256 }
  }
}
