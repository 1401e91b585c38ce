import { mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import type { SnapshotId } from '../../lib/ids.ts'
import { removeSnapshotFiles, sweepSnapshotFiles } from './snapshot-files.ts'

const ID = 'snap_00000000000000000000000000' as SnapshotId

it('removes nothing when the snapshots folder is a link', async () => {
  const folder = tempFolder('craik-snapshots-')
  const [outside, snapshots] = [join(folder, 'outside'), join(folder, 'snapshots')]
  for (const name of [ID, `.partial-${ID}`]) mkdirSync(join(outside, name), { recursive: true, mode: 0o700 })
  symlinkSync(outside, snapshots)
  for (const attempt of [sweepSnapshotFiles(snapshots, () => false), removeSnapshotFiles(snapshots, ID)])
    await expect(attempt).rejects.toMatchObject({ code: 'key_exposed' })
  expect(readdirSync(outside)).toHaveLength(2)
})
