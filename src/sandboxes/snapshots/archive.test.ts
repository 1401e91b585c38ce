import { hash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import { pax, type RawEntry, rawArchive, rawEntry } from '../../lib/safe-tar/archive.fixture.ts'
import { examineArchive, explainUnpackError, readArchive } from './archive.ts'
import {
  formatManifest,
  manifestDigest,
  parseManifest,
  SNAPSHOT_LIMITS,
  type SnapshotManifest,
} from './snapshot-manifest.ts'

const folder = mkdtempSync(join(tmpdir(), 'craik-archive-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const until = new AbortController().signal

function manifestOf(
  content: Partial<SnapshotManifest['content']>,
  archive: Partial<SnapshotManifest['archive']> = {},
): SnapshotManifest {
  return {
    format: 'craik.snapshot/1',
    id: `snap_${'0'.repeat(26)}`,
    name: 'before',
    created_at_ms: 0,
    created_by: 'user',
    origin: { sandbox_id: `sbx_${'0'.repeat(26)}`, name: 'parser' },
    backend: 'process',
    image: null,
    spec: {
      isolation: 'process',
      workspace: 'copy',
      limits: { memory_bytes: 2 ** 30, processes: 512 },
      environment: {},
      runtime: null,
      line: null,
    },
    content: { files: 0, folders: 0, links: 0, bytes: 0, skipped: 0, still: true, changed: 0, ...content },
    archive: { compression: 'zstd', bytes: 0, sha256: '0'.repeat(64), ...archive },
  }
}

async function examine(tar: Buffer, content: Partial<SnapshotManifest['content']>): Promise<void> {
  const compressed = zstdCompressSync(tar)
  const path = join(folder, 'archive')
  writeFileSync(path, compressed)
  const manifest = manifestOf(content, {
    bytes: compressed.length,
    sha256: hash('sha256', compressed),
  })
  const file = await open(path)
  try {
    const archive = readArchive(file, manifest, until)
    await examineArchive(archive.content, manifest, until)
    await archive.waitUntilVerified()
  } finally {
    await file.close().catch(() => {})
  }
}

describe('an archive of unknown origin', () => {
  it('is accepted if its content equals its manifest', async () => {
    const tar = rawArchive(
      { name: 'd/', type: '5', mode: 0o755 },
      { name: 'd/a', body: 'hello' },
      { name: 'd/l', type: '2', link: '../../..' },
      { name: 'd/h', type: '1', link: 'd/a' },
    )
    await examine(tar, { files: 1, folders: 1, links: 2, bytes: 5 })
  })

  it.each<[string, readonly RawEntry[], Partial<SnapshotManifest['content']>]>([
    ['an absolute name', [{ name: '/etc/x', body: 'x' }], { files: 1, bytes: 1 }],
    ['a name that leads upwards', [{ name: '../x', body: 'x' }], { files: 1, bytes: 1 }],
    ['a link to a name that leads upwards', [{ name: 'x', type: '1', link: '../y' }], { links: 1 }],
    ['a file in place of the home', [{ name: './.', body: 'x' }], { files: 1, bytes: 1 }],
    ['a device', [{ name: 'x', type: '3' }], {}],
    ['a pipe', [{ name: 'x', type: '6' }], {}],
    ['a sparse file', [{ name: 'x', type: 'S', body: 'x' }], { files: 1, bytes: 1 }],
    ['more files than it says', [{ name: 'a' }, { name: 'b' }], { files: 1 }],
    ['fewer files than it says', [{ name: 'a' }], { files: 2 }],
    ['more bytes than it says', [{ name: 'a', body: 'xx' }], { files: 1, bytes: 1 }],
    ['a size that nobody has', [{ name: 'a', size: 8 ** 11 - 1 }], { files: 1, bytes: 1 }],
    ['a checksum that does not fit', [{ name: 'a', damaged: true }], { files: 1 }],
    [
      'a header without an end',
      [{ name: 'p', type: 'x', size: 8 ** 10, body: pax('path', 'a') }],
      { files: 1 },
    ],
  ])('is refused with %s', async (_, entries, content) => {
    await expect(examine(rawArchive(...entries), content)).rejects.toMatchObject({
      code: expect.stringMatching(/usage|boundary_failed/),
    })
  })

  it('is refused without decompressing more than its manifest allows', async () => {
    const bomb = Buffer.concat([rawEntry({ name: 'a', size: 2 ** 28 }), Buffer.alloc(2 ** 28)])
    const compressed = zstdCompressSync(bomb)
    expect(compressed.length).toBeLessThan(2 ** 17)
    const manifest = manifestOf({ files: 1, bytes: 10 }, { bytes: compressed.length })
    let decompressed = 0
    writeFileSync(join(folder, 'bomb'), compressed)
    const file = await open(join(folder, 'bomb'))
    try {
      const { content } = readArchive(file, manifest, until)
      const counted = content.on('data', (chunk: Buffer) => {
        decompressed += chunk.length
      })
      await expect(examineArchive(Readable.from(counted), manifest, until)).rejects.toMatchObject({
        code: 'usage',
      })
      content.destroy()
      expect(decompressed).toBeLessThan(2 ** 24)
    } finally {
      await file.close().catch(() => {})
    }
  })
})

describe('an archive that cannot be unpacked', () => {
  it('is reported as changed only if its digest differs', async () => {
    const path = join(folder, 'kept')
    const { archive } = manifestOf({}, { bytes: 4, sha256: hash('sha256', 'kept') })
    const why = async (text: string) => {
      writeFileSync(path, text)
      await using file = await open(path)
      const error = new CraikError('too_large', 'a name is too long')
      return await explainUnpackError(error, file, { name: 'before', archive }, until)
    }
    for (const changed of ['Kept', 'kep', 'kept '])
      expect(await why(changed)).toMatchObject({
        code: 'tampered',
        message: expect.stringContaining('was changed or damaged'),
      })
    expect(await why('kept')).toMatchObject({
      code: 'too_large',
      message: 'cannot unpack snapshot before, although its archive is intact: a name is too long',
    })
  })
})

describe('a manifest', () => {
  it('is accepted only in canonical form, and then has the same digest', () => {
    const manifest = manifestOf({})
    const text = formatManifest(manifest)
    expect(manifestDigest(parseManifest(text))).toBe(manifestDigest(manifest))
    expect(() => parseManifest(`${text} `)).toThrow(expect.objectContaining({ code: 'usage' }))
    expect(() => parseManifest(text.replace('"files":0', '"files":0,"files":0'))).toThrow()
    expect(() => parseManifest(text.replace('craik.snapshot/1', 'craik.snapshot/2'))).toThrow('newer')
  })

  it('is refused with any content that no snapshot has', () => {
    const keys = fc.constantFrom(
      'id',
      'name',
      'created_by',
      'backend',
      'image',
      'spec',
      'content',
      'archive',
      'extra',
    )
    const odd = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constant(SNAPSHOT_LIMITS.archiveBytes + 1))
    fc.assert(
      fc.property(keys, odd, (key, value) => {
        const manifest = { ...manifestOf({}), [key]: value }
        const text = JSON.stringify(manifest)
        let parsed: SnapshotManifest | undefined
        try {
          parsed = parseManifest(text)
        } catch (error) {
          expect(error).toMatchObject({ code: 'usage' })
        }
        if (parsed !== undefined) expect(formatManifest(parsed)).toBe(text)
      }),
    )
  })
})
