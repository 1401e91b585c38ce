import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Home, homeAt } from './home.ts'
import { listMountedFolders, recordMountedFolder } from './mounted-folders.ts'

let folder: string
let home: Home
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-lent-'))
  home = homeAt(join(folder, 'home'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const listMounted = () => listMountedFolders(home, () => Promise.reject(new Error('there is no database')))

describe('a folder that a sandbox could write to', () => {
  it('is listed once, even when no sandbox mounts it', async () => {
    expect(await listMounted()).toEqual([home.root])
    for (const lent of ['/project/a', '/project/b', '/project/a']) recordMountedFolder(home, lent)
    expect(await listMounted()).toEqual([home.root, '/project/a', '/project/b'])
  })

  it('causes an error when the list is damaged', async () => {
    recordMountedFolder(home, '/project/a')
    writeFileSync(join(home.state, 'lent-folders.json'), '{')
    await expect(listMounted()).rejects.toMatchObject({ code: 'invalid_config' })
  })

  const list = () => join(home.state, 'lent-folders.json')
  it.each([
    ['a link to a device without end', () => symlinkSync('/dev/zero', list()), 'symbolic link'],
    ['a link that leads nowhere', () => symlinkSync('/nowhere', list()), 'symbolic link'],
    ['a named pipe', () => execFileSync('mkfifo', ['-m', '600', list()]), 'regular file'],
    [
      'more than 1 MiB',
      () => writeFileSync(list(), ' '.repeat(1024 * 1024 + 1), { mode: 0o600 }),
      '1048576 bytes',
    ],
    ['no list', () => writeFileSync(list(), '{"a":1}', { mode: 0o600 }), 'JSON list of paths'],
  ])('is refused with the name of the list when that is %s', async (_, make, problem) => {
    mkdirSync(home.state, { recursive: true, mode: 0o700 })
    make()
    const refused = { code: 'invalid_config', message: expect.stringContaining(problem) }
    await expect(listMounted()).rejects.toMatchObject(refused)
    await expect(listMounted()).rejects.toThrow(list())
    expect(() => recordMountedFolder(home, '/project/a')).toThrow(list())
  })

  it('can be recorded after many others with long paths', async () => {
    const long = (i: number) => `/${i}/${'x'.repeat(4000)}`
    mkdirSync(home.state, { recursive: true, mode: 0o700 })
    writeFileSync(list(), JSON.stringify(Array.from({ length: 261 }, (_, i) => long(i))), { mode: 0o600 })
    recordMountedFolder(home, long(299))
    expect(statSync(list()).size).toBeLessThanOrEqual(1024 * 1024)
    expect((await listMounted()).at(-1)).toMatch(/^\/299\//)
  })
})
