import { createHash } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import type { SnapshotId } from '../../lib/ids.ts'
import { rawArchive } from '../../lib/safe-tar/archive.fixture.ts'
import { formatManifest } from '../snapshots/snapshot-manifest.ts'
import { allowImport, flipByte, inside, snapshotFiles } from './managed-snapshots.fixture.ts'
import { allowCreate, caller, managerScene } from './manager.fixture.ts'

describe('a snapshot as a file', () => {
  it('is identical after an import, and creates the same sandbox', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'echo one > a; ln a hard; mkdir -p d/e; chmod 500 d/e')
    const { digest } = await manager.snapshot(caller(), id, { name: 'before' })
    const file = await buffer((await manager.snapshots.open(caller(), 'before')).body)
    await allowImport(scene)
    const imported = await manager.snapshots.import(caller(), Readable.from([file]), {
      name: 'other',
      digest,
    })
    expect(imported).toMatchObject({ name: 'other', digest, imported: true })
    expect((await buffer((await manager.snapshots.open(caller(), 'other')).body)).equals(file)).toBe(true)
    await allowCreate(scene.store)
    const made = await manager.create(caller(), {
      backend: 'process',
      isolation: 'none',
      workspace: { mode: 'copy' },
      limits: {},
      environment: {},
      from: 'other',
    })
    expect(await inside(scene, made.id, 'cat hard; stat -c "%h %a" a d/e')).toBe('one\n2 644\n2 500\n')
    chmodSync(join(scene.folder, 'sandboxes', id, 'data/home/project/d/e'), 0o700)
    chmodSync(join(scene.folder, 'sandboxes', made.id, 'data/home/project/d/e'), 0o700)
  })

  it('that cannot be unpacked completely reports how many entries are left out, the first names, and why', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await manager.snapshot(caller(), id, { name: 'before' })
    const file = await buffer((await manager.snapshots.open(caller(), 'before')).body)
    const broken = Array.from({ length: 5 }, (_, n) => ({ name: `project/n${n}`, type: '1', link: 'none' }))
    const disk = zstdCompressSync(
      rawArchive({ name: 'project', type: '5', mode: 0o755 }, { name: 'project/a', body: 'x' }, ...broken),
    )
    const manifest = JSON.parse(
      file.toString('utf8', 512, 512 + Number.parseInt(file.toString('latin1', 124, 135), 8)),
    )
    Object.assign(manifest.content, { files: 1, folders: 1, links: 5, bytes: 1 })
    manifest.archive = {
      ...manifest.archive,
      bytes: disk.length,
      sha256: createHash('sha256').update(disk).digest('hex'),
    }
    const bundle = rawArchive(
      { name: 'manifest.json', body: formatManifest(manifest), mode: 0o600 },
      { name: 'disk.tar.zst', body: disk, mode: 0o600 },
    )
    await allowImport(scene)
    await manager.snapshots.import(caller(), Readable.from([bundle]), { name: 'odd' })
    const reported =
      'left out 5 entries: "project/n0" (link to nothing), "project/n1" (link to nothing), "project/n2" (link to nothing) and 2 more'
    expect(await manager.restore(caller(), id, 'odd')).toMatchObject({
      notice: `restored from snapshot odd, ${reported}`,
    })
    expect(await inside(scene, id, 'ls')).toBe('a\n')
    const [used] = await scene.receipts({ operation: 'use', phase: 'end' })
    expect(used!.measures).toContainEqual({ name: 'entries_left_out', value: 5, source: 'observed' })
    await allowCreate(scene.store)
    const request = {
      backend: 'process',
      isolation: 'none',
      workspace: { mode: 'copy' },
      limits: {},
      environment: {},
    } as const
    expect(await manager.create(caller(), { ...request, from: 'odd' })).toMatchObject({
      notice: `created from a snapshot, ${reported}`,
    })
  })

  it('is refused when any byte of it differs, and nothing of it is kept', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'head -c 3000 /dev/urandom > a')
    const { id: snapshot, digest } = await manager.snapshot(caller(), id)
    const file = await buffer((await manager.snapshots.open(caller(), snapshot)).body)
    const stored = snapshotFiles(scene)
    for (let at = 0; at < file.length; at += 397) {
      await allowImport(scene)
      const changed = flipByte(file, at)
      const taken = manager.snapshots.import(caller(), Readable.from([changed]), { name: `n${at}`, digest })
      // Bytes after the end of an archive mean nothing.
      const isAfterEnd = at >= file.length - 1024 || isPadding(file, at)
      if (isAfterEnd) await taken.catch(() => {})
      else await expect(taken).rejects.toMatchObject({ code: expect.stringMatching(/usage|too_large/) })
    }
    for (const { id: left } of await manager.snapshots.list())
      if (left !== (snapshot as string)) await manager.snapshots.delete(caller(), left)
    expect(snapshotFiles(scene)).toEqual(stored)
  })

  it('is refused when it is truncated, contains something else, or is not the requested one', async () => {
    await using scene = managerScene()
    const { manager } = scene
    const id = await scene.create()
    await inside(scene, id, 'echo one > a')
    const { id: snapshot } = await manager.snapshot(caller(), id)
    const file = await buffer((await manager.snapshots.open(caller(), snapshot)).body)
    const attempts: readonly [Buffer, object][] = [
      [file.subarray(0, file.length >> 1), {}],
      [Buffer.concat([file.subarray(0, file.length - 1024), file]), {}],
      [Buffer.from('hello'), {}],
      [Buffer.alloc(0), {}],
      [file, { digest: `sha256:${'0'.repeat(64)}` }],
    ]
    for (const [bytes, about] of attempts) {
      await allowImport(scene)
      const taken = manager.snapshots.import(caller(), Readable.from([bytes]), { name: 'bad', ...about })
      await expect(taken).rejects.toMatchObject({ code: 'usage' })
    }
    expect(snapshotFiles(scene)).toEqual([snapshot as SnapshotId])
  })
})

/** The file is padded with zeros between the manifest and the next header, and after the archive. */
function isPadding(file: Buffer, at: number): boolean {
  const manifestEnd = 512 + Number.parseInt(file.toString('latin1', 124, 135), 8)
  const header = Math.ceil(manifestEnd / 512) * 512
  const archiveEnd = header + 512 + Number.parseInt(file.toString('latin1', header + 124, header + 135), 8)
  return (at >= manifestEnd && at < header) || at >= archiveEnd
}
