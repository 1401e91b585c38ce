import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Home, homeAt } from './home.ts'
import { mountedFolders, rememberLent } from './mounted-folders.ts'

let folder: string
let home: Home
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-lent-'))
  home = homeAt(join(folder, 'home'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const mounted = () => mountedFolders(home, () => Promise.reject(new Error('there is no database')))

describe('a folder that a sandbox could write', () => {
  it('counts also when no sandbox has it, once', async () => {
    expect(await mounted()).toEqual([home.root])
    for (const lent of ['/project/a', '/project/b', '/project/a']) rememberLent(home, lent)
    expect(await mounted()).toEqual([home.root, '/project/a', '/project/b'])
  })

  it('is not forgotten silently when the list is damaged', async () => {
    rememberLent(home, '/project/a')
    writeFileSync(join(home.state, 'lent-folders.json'), '{')
    await expect(mounted()).rejects.toMatchObject({ code: 'invalid_config' })
  })
})
