/**
 * When `craik up` refuses to start, its error says what its user can do, names the real obstacle first, and leaves
 * nothing behind.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { LoginSandboxScene } from './scene.ts'

/** Leaves a socket file, as a killed program does. */
const LEAVE_SOCKET =
  'import os, socket, sys; os.chdir(sys.argv[1]); socket.socket(socket.AF_UNIX).bind("left.sock")'

const missing = canBe('root') ? undefined : ROOT_IS_NEEDED

describe.skipIf(missing !== undefined)(missing ?? 'a refused start', () => {
  let here: LoginSandboxScene
  beforeAll(async () => {
    here = await LoginSandboxScene.open({ identity: 'root' })
  }, 180_000)
  afterAll(() => here?.[Symbol.asyncDispose]())
  const up = (...args: readonly string[]) => here.run(['up', '--no-attach', ...args])

  it('names no option that up does not have, for a socket file that was left or a link', async () => {
    const stale = here.scene.home.workspace('stale')
    execFileSync('python3', ['-c', LEAVE_SOCKET, stale])
    const linked = here.scene.home.workspace('linked')
    symlinkSync('elsewhere', join(linked, '.vscode'))
    for (const [folder, why] of [
      [stale, /left\.sock\n.*remove their socket files/],
      [linked, /\.vscode in the workspace is a symbolic link/],
    ] as const) {
      const inbox = here.scene.home.path('unused-inbox')
      const { code, stderr } = await up('--workspace', folder, '--inbox', inbox)
      expect([code, stderr]).toEqual([2, expect.stringMatching(why)])
      expect(stderr).not.toContain('--in-place')
      expect(stderr).toContain(`craik up --login octo --workspace FOLDER --inbox ${inbox}`)
      // The inbox was created for a sandbox that was never created.
      expect(existsSync(inbox)).toBe(false)
    }
  })

  it('reports that a home folder is not a project before it mentions the inbox in it', async () => {
    const home = dirname(here.inbox)
    for (const folder of [home, '/']) {
      const { code, stderr } = await up('--workspace', folder)
      expect([code, stderr]).toEqual([2, expect.stringContaining('craik up --login octo --workspace FOLDER')])
      expect(stderr).not.toContain('inbox')
    }
  })

  it('keeps an inbox that already existed', async () => {
    const inbox = here.scene.home.path('kept-inbox')
    mkdirSync(inbox)
    expect(await up('--workspace', '/nonexistent', '--inbox', inbox)).toMatchObject({ code: 2 })
    expect(existsSync(inbox)).toBe(true)
  })

  it('names the login in its suggestions, also for errors of the sandbox itself', async () => {
    await here.up()
    expect(await here.run(['save', '--login', 'ada'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('craik up --login ada'),
    })
    expect(await here.run(['down'])).toMatchObject({ code: 0 })
    execFileSync('python3', ['-c', LEAVE_SOCKET, here.workspace])
    const { code, stderr } = await up()
    rmSync(join(here.workspace, 'left.sock'))
    expect([code, stderr]).toEqual([2, expect.stringContaining('left.sock')])
    expect(stderr).toContain('move it to another folder:  craik rebuild --login octo --workspace FOLDER')
    expect(await here.up()).toMatchObject({ how: 'resumed' })
  })
})
