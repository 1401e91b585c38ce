/**
 * Folders that a sandbox never gets in place. Craik copies a folder of root and reports that, and refuses a folder with
 * Craik's own program files.
 */
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { builtMain } from '../craik.ts'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { LoginSandboxScene } from './scene.ts'

const missing = canBe('root') ? undefined : ROOT_IS_NEEDED

describe.skipIf(missing !== undefined)(missing ?? 'a folder that is not lent', () => {
  let here: LoginSandboxScene
  beforeAll(async () => {
    here = await LoginSandboxScene.open({ identity: 'root' })
  }, 180_000)
  afterAll(() => here?.[Symbol.asyncDispose]())

  function folderOfRoot(name: string): string {
    const folder = here.scene.home.path(name)
    mkdirSync(folder)
    writeFileSync(join(folder, 'whose.txt'), `${name}\n`)
    return folder
  }

  it('of root is copied, stays unchanged, and is distinguished from another folder', async () => {
    const [one, other] = [folderOfRoot('one'), folderOfRoot('other')]
    const record = await here.up(['--workspace', one])
    expect(record).toMatchObject({
      workspace_mode: 'copy',
      notes: [expect.stringContaining('belongs to root')],
    })
    expect(await here.inside('cat whose.txt; echo changed > whose.txt')).toBe('one\n')
    expect(readFileSync(join(one, 'whose.txt'), 'utf8')).toBe('one\n')
    for (const elsewhere of [other, '/nonexistent'])
      expect(await here.run(['up', '--no-attach', '--workspace', elsewhere])).toMatchObject({
        code: 4,
        stderr: expect.stringContaining(one),
      })
    await here.run(['down'])
    expect(await here.up(['--workspace', one])).toMatchObject({ how: 'resumed' })
    expect(await here.inside('cat whose.txt')).toBe('changed\n')
    expect(await here.run(['rebuild', '--workspace', other])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('would be lost'),
    })
    expect(await here.run(['rebuild', '--yes', '--workspace', other])).toMatchObject({ code: 0 })
    expect(await here.inside('cat whose.txt')).toBe('other\n')
  })

  it('that Craik runs from is never mounted by any command, nor a folder that contains it or is in it', async () => {
    const program = dirname(dirname(builtMain()))
    for (const folder of [program, dirname(program), join(program, 'src')]) {
      chownSync(folder, here.scene.home.uid, here.scene.home.uid)
      const args = ['sandbox', 'create', '--in-place', '--workspace', folder]
      expect(await here.run(args)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('Craik’s own program files'),
      })
    }
  })
})
