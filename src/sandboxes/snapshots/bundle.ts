/**
 * Writes and reads a snapshot as one file: a tar archive of its manifest and its compressed disk. The same snapshot
 * always gives the same bytes.
 */
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { BLOCK_BYTES, encodeHeader, paddingOf } from '../../lib/safe-tar/header.ts'
import { readTar, type TarEntry } from '../../lib/safe-tar/read-tar.ts'
import { ARCHIVE_NAME, MANIFEST_NAME } from './snapshot-files.ts'
import {
  formatManifest,
  invalidSnapshotError,
  parseManifest,
  SNAPSHOT_LIMITS,
  type SnapshotManifest,
} from './snapshot-manifest.ts'

export interface Bundle {
  readonly bytes: number
  /** Returns a new stream from the beginning at each call. Closes no file. */
  open(): Readable
}

/** `archive` is open, and must stay open while the bundle is read. */
export function bundleOf(manifest: SnapshotManifest, archive: FileHandle): Bundle {
  const text = Buffer.from(formatManifest(manifest))
  const modifiedAtS = Math.floor(manifest.created_at_ms / 1000)
  const header = (name: string, bytes: number) =>
    encodeHeader({ kind: 'file', name, link: '', bytes, mode: 0o600, modifiedAtS })
  const { bytes } = manifest.archive
  const before = Buffer.concat([
    header(MANIFEST_NAME, text.length),
    text,
    Buffer.alloc(paddingOf(text.length)),
    header(ARCHIVE_NAME, bytes),
  ])
  const after = Buffer.alloc(paddingOf(bytes) + 2 * BLOCK_BYTES)
  async function* parts() {
    yield before
    if (bytes > 0) {
      const content = archive.createReadStream({ start: 0, end: bytes - 1, autoClose: false })
      yield* content as AsyncIterable<Buffer>
    }
    yield after
  }
  return {
    bytes: before.length + bytes + after.length,
    open: () => Readable.from(parts(), { objectMode: false }),
  }
}

/** Reads a bundle of any origin. `keep` gets the archive, whose content is not checked yet. */
export async function readBundle(
  source: Readable,
  until: AbortSignal,
  keep: (manifest: SnapshotManifest, archive: Readable) => Promise<void>,
): Promise<SnapshotManifest> {
  let manifest: SnapshotManifest | undefined
  let isRetained = false
  try {
    for await (const entry of readTar(source, until)) {
      if (manifest === undefined) manifest = parseManifest(await textOf(entry))
      else if (isRetained || entry.kind !== 'file' || entry.name !== ARCHIVE_NAME)
        throw invalidSnapshotError('it contains something other than a manifest and a disk')
      else if (entry.bytes !== manifest.archive.bytes)
        throw invalidSnapshotError('its disk does not have the size that its manifest says')
      else {
        await keep(manifest, Readable.from(entry.content(), { objectMode: false }))
        isRetained = true
      }
    }
  } catch (error) {
    if (until.aborted) throw until.reason
    throw translateBundleError(error)
  }
  if (manifest === undefined || !isRetained) throw invalidSnapshotError('it contains no disk')
  return manifest
}

async function textOf(entry: TarEntry): Promise<string> {
  if (entry.kind !== 'file' || entry.name !== MANIFEST_NAME)
    throw invalidSnapshotError('it does not start with a manifest')
  if (entry.bytes > SNAPSHOT_LIMITS.manifestBytes) throw invalidSnapshotError('its manifest is too long')
  const parts: Buffer[] = []
  for await (const chunk of entry.content()) parts.push(chunk)
  return Buffer.concat(parts).toString('utf8')
}

/** The tar reader's errors are written for archives that come from sandboxes, so this translates them. */
export function translateBundleError(error: unknown): unknown {
  if (error instanceof CraikError && error.code === 'boundary_failed')
    return invalidSnapshotError(error.message.replace(/^refused to unpack the archive: /, ''), error)
  return error
}
