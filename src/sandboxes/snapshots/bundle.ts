/** A snapshot as one file: a tar archive of its manifest and its compressed disk, the same bytes every time. */
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { BLOCK_BYTES, encodeHeader, paddingOf } from '../../lib/safe-tar/header.ts'
import { readTar, type TarEntry } from '../../lib/safe-tar/read-tar.ts'
import { ARCHIVE_NAME, MANIFEST_NAME } from './snapshot-files.ts'
import {
  formatManifest,
  notASnapshot,
  parseManifest,
  SNAPSHOT_LIMITS,
  type SnapshotManifest,
} from './snapshot-manifest.ts'

export interface Bundle {
  readonly bytes: number
  /** From the beginning, each time it is called; closes nothing. */
  open(): Readable
}

/** `archive` is open, and stays so for as long as the bundle is read. */
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

/** Reads one that comes from anywhere; `keep` gets the archive, which is not looked into yet. */
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
        throw notASnapshot('it contains something other than a manifest and a disk')
      else if (entry.bytes !== manifest.archive.bytes)
        throw notASnapshot('its disk does not have the size that its manifest says')
      else {
        await keep(manifest, Readable.from(entry.content(), { objectMode: false }))
        isRetained = true
      }
    }
  } catch (error) {
    if (until.aborted) throw until.reason
    throw translateBundleError(error)
  }
  if (manifest === undefined || !isRetained) throw notASnapshot('it contains no disk')
  return manifest
}

async function textOf(entry: TarEntry): Promise<string> {
  if (entry.kind !== 'file' || entry.name !== MANIFEST_NAME)
    throw notASnapshot('it does not start with a manifest')
  if (entry.bytes > SNAPSHOT_LIMITS.manifestBytes) throw notASnapshot('its manifest is too long')
  const parts: Buffer[] = []
  for await (const chunk of entry.content()) parts.push(chunk)
  return Buffer.concat(parts).toString('utf8')
}

/** What the reader of archives says is about what comes out of a sandbox. */
export function translateBundleError(error: unknown): unknown {
  if (error instanceof CraikError && error.code === 'boundary_failed')
    return notASnapshot(error.message.replace(/^refused to unpack the archive: /, ''), error)
  return error
}
