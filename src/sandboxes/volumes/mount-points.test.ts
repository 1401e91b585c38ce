import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { makeMountPoints } from './mount-points.ts'

const IS_ROOT = process.getuid?.() === 0
const USER = { uid: 12_345, gid: 12_346 }
const VOLUMES = [
  { name: 'llm', at: '.config/llm/state' },
  { name: 'tools', at: '.local' },
]

describe('the mount points of volumes', () => {
  let folder: string
  let home: string
  beforeEach(() => {
    folder = tempFolder('craik-points-')
    home = join(folder, 'home')
    for (const path of [home, join(folder, 'outside')]) mkdirSync(path)
  })
  const make = () => makeMountPoints(home, VOLUMES, IS_ROOT ? USER : undefined)

  it('are created with their parent folders, closed to other users and owned by the sandbox’s user', () => {
    make()
    for (const path of ['.config', '.config/llm', '.config/llm/state', '.local']) {
      const { mode, uid, gid } = lstatSync(join(home, path))
      expect([mode & 0o777, uid, gid]).toEqual([
        0o700,
        ...(IS_ROOT ? [USER.uid, USER.gid] : [process.getuid!(), process.getgid!()]),
      ])
    }
  })

  it('that exist stay unchanged', () => {
    make()
    chmodSync(join(home, '.config'), 0o750)
    const before = lstatSync(join(home, '.config'), { bigint: true })
    make()
    expect(lstatSync(join(home, '.config'), { bigint: true })).toEqual(before)
  })

  it.each(['.config', '.config/llm', '.config/llm/state'])('are refused behind a link at %s', (path) => {
    make()
    renameSync(join(home, path), join(home, 'moved'))
    symlinkSync(join(folder, 'outside'), join(home, path))
    expect(make).toThrow(
      expect.objectContaining({
        code: 'conflict',
        message: expect.stringContaining('cannot mount the volume llm'),
        hint: expect.stringContaining('craik rebuild'),
      }),
    )
    expect(readdirSync(join(folder, 'outside'))).toEqual([])
  })

  it('are refused if a link leads nowhere, or to a folder of the home itself', () => {
    for (const target of ['nowhere', '.', '.config2']) {
      rmSync(join(home, '.config'), { recursive: true, force: true })
      symlinkSync(target, join(home, '.config'))
      expect(make).toThrow(expect.objectContaining({ code: 'conflict' }))
    }
    expect(readdirSync(home)).toEqual(['.config'])
  })

  it('are refused if a file has the name', () => {
    writeFileSync(join(home, '.local'), '')
    expect(make).toThrow(expect.objectContaining({ code: 'conflict' }))
  })
})
