import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { removeTree } from '../remove-tree.ts'
import { findVolumes, measureVolume, openVolumes, setAside, sweepVolumes } from './volume-folders.ts'

const IS_ROOT = process.getuid?.() === 0
const NEVER = new AbortController().signal

describe('the folder of a volume', () => {
  let root: string
  let volume: { name: string; at: string; folder: string }
  beforeEach(() => {
    const folder = tempFolder('craik-volumes-')
    root = join(folder, 'volumes')
    volume = { name: 'tools', at: '.local', folder: join(root, 'tools') }
  })
  const user = (uid: number) => (IS_ROOT ? { uid, gid: uid + 1 } : undefined)
  const open = (uid: number) => openVolumes([volume], user(uid))

  it('is created private in a private folder, and is the same one the next time', async () => {
    const [first] = await open(12_345)
    for (const path of [root, volume.folder]) expect(lstatSync(path).mode & 0o777).toBe(0o700)
    writeFileSync(join(volume.folder, 'kept'), 'yes')
    chmodSync(volume.folder, 0o777)
    expect(await open(12_345)).toEqual([first])
    expect(lstatSync(volume.folder).mode & 0o777).toBe(0o700)
    expect(readFileSync(join(volume.folder, 'kept'), 'utf8')).toBe('yes')
  })

  it('is refused if it is a link, whatever the target', async () => {
    mkdirSync(root, { mode: 0o700 })
    symlinkSync('/etc', volume.folder)
    await expect(open(12_345)).rejects.toMatchObject({ code: 'key_exposed' })
  })

  it.runIf(IS_ROOT)(
    'is given to another user with all its content, but without the targets of links',
    async () => {
      const outside = join(root, '../outside')
      writeFileSync(outside, 'theirs')
      await open(12_345)
      mkdirSync(join(volume.folder, 'deep/er'), { recursive: true })
      for (const name of ['file', 'deep/er/file']) writeFileSync(join(volume.folder, name), '')
      symlinkSync(outside, join(volume.folder, 'link'))
      symlinkSync('/etc', join(volume.folder, 'deep/etc'))
      execFileSync('chown', ['-hR', '12345:12346', volume.folder])
      await open(23_456)
      for (const name of ['.', 'file', 'deep', 'deep/er', 'deep/er/file', 'link', 'deep/etc']) {
        const { uid, gid } = lstatSync(join(volume.folder, name))
        expect([name, uid, gid]).toEqual([name, 23_456, 23_457])
      }
      expect([lstatSync(outside).uid, lstatSync('/etc').uid]).toEqual([0, 0])
    },
  )

  it.runIf(IS_ROOT)('is given completely if an earlier change of the owner was interrupted', async () => {
    await open(12_345)
    const file = join(volume.folder, 'file')
    writeFileSync(file, '')
    chownSync(file, 23_456, 23_456)
    // This is the state in between.
    chownSync(volume.folder, 0, 0)
    await open(12_345)
    expect([lstatSync(file).uid, lstatSync(volume.folder).uid]).toEqual([12_345, 12_345])
  })

  it('is measured without following links in it', async () => {
    await open(12_345)
    writeFileSync(join(root, '../large'), Buffer.alloc(4 * 1024 * 1024))
    symlinkSync(join(root, '..'), join(volume.folder, 'up'))
    symlinkSync('/usr', join(volume.folder, 'usr'))
    writeFileSync(join(volume.folder, 'own'), Buffer.alloc(1024 * 1024))
    const bytes = await measureVolume(volume.folder, NEVER)
    expect(bytes).toBeGreaterThanOrEqual(1024 * 1024)
    expect(bytes).toBeLessThan(2 * 1024 * 1024)
  })

  it('is listed by its name, without folders of other names and without files or links', async () => {
    expect(await findVolumes(root)).toEqual([])
    await open(12_345)
    mkdirSync(join(root, '.gone-x'))
    writeFileSync(join(root, 'file'), '')
    symlinkSync('/etc', join(root, 'link'))
    expect((await findVolumes(root)).map(({ name }) => name)).toEqual(['tools'])
  })

  it('is neither found nor removed if the volumes folder is a link', async () => {
    const outside = join(root, '../outside')
    mkdirSync(join(outside, '.gone-x'), { recursive: true, mode: 0o700 })
    mkdirSync(join(outside, 'tools'))
    symlinkSync(outside, root)
    for (const attempt of [sweepVolumes(root), findVolumes(root), setAside(root, 'tools')])
      await expect(attempt).rejects.toMatchObject({ code: 'key_exposed' })
    expect(readdirSync(outside).sort()).toEqual(['.gone-x', 'tools'])
  })

  it('loses its name before its content is removed, and a later sweep removes what a crash left', async () => {
    const outside = join(root, '../outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'precious'), '')
    await open(12_345)
    symlinkSync(outside, join(volume.folder, 'link'))
    await setAside(root, 'tools')
    expect(await findVolumes(root)).toEqual([])
    expect(readdirSync(root)).toHaveLength(1)
    await sweepVolumes(root)
    expect([readdirSync(root), readdirSync(outside)]).toEqual([[], ['precious']])
    rmSync(root, { recursive: true })
    await sweepVolumes(root)
    expect(await setAside(root, 'tools')).toBeUndefined()
    await removeTree(root)
  })
})
