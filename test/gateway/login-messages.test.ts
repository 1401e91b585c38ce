/** The messages about the logins of a sandbox when it starts, and when Craik could not copy them. */
import { expect, it } from 'vitest'
import type { SandboxBody } from '../../src/operator/api/bodies.ts'
import { canBe } from '../sandbox-home.ts'
import { LoginScene } from './login-scene.ts'

const identity = canBe('root') ? 'root' : 'user'

it('create and resume name the installed logins, or report why they are missing', async () => {
  await using scene = await LoginScene.open({ identity })
  const { home } = scene
  const table = (...args: string[]) => home.run(['sandbox', ...args, '--format', 'table'])
  const none = await table('create', '--name', 'early')
  expect(none).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('\n  accounts none:  craik accounts\n'),
  })

  scene.logIn('claude')
  scene.logIn('codex')
  expect(await table('create', '--name', 'box')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('\n  accounts claude-code · codex\n'),
  })
  const without = await table('create', '--name', 'without', '--credentials', 'none')
  expect(without).toMatchObject({ code: 0, stdout: expect.not.stringContaining('accounts') })

  const exec = (...argv: string[]) => home.run(['sandbox', 'exec', 'box', '--no-stdin', '--', ...argv])
  // A program in the sandbox has replaced a login folder with a file.
  expect(await exec('sh', '-c', 'rm -rf ~/.claude && touch ~/.claude')).toMatchObject({ code: 0 })
  expect(await table('stop', 'box')).toMatchObject({
    code: 0,
    stdout: expect.not.stringContaining('accounts'),
  })
  const missing = await table('resume', 'box')
  expect(missing).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ {2}running {2}box · sbx_/) })
  expect(missing.stdout).toMatch(/\n {2}notice {3}could not copy its logins into the sandbox: /)
  expect(missing.stdout).not.toContain('accounts')
  expect(await home.json<SandboxBody>(['sandbox', 'show', 'box'])).toMatchObject({
    accounts: null,
    notice: expect.stringContaining('could not copy its logins'),
  })

  expect(await exec('rm', '/workspace/home/.claude')).toMatchObject({ code: 0 })
  await table('stop', 'box')
  const again = await table('resume', 'box')
  expect(again.stdout).toMatch(/\n {2}accounts claude-code · codex\n$/)
  expect(await scene.hunt({ table: missing.stdout + again.stdout })).toEqual([])
})
