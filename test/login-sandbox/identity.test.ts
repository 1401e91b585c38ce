/** The identity of a sandbox: profiles, refused variables, and the account that the GitHub token resolves to. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { LoginSandboxScene } from './scene.ts'

const missing = canBe('root') ? undefined : ROOT_IS_NEEDED

describe.skipIf(missing !== undefined)(missing ?? 'before anything is started', () => {
  let here: LoginSandboxScene
  beforeAll(async () => {
    here = await LoginSandboxScene.open({ identity: 'root' })
  }, 180_000)
  afterAll(() => here?.[Symbol.asyncDispose]())
  const up = (args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) =>
    here.run(['up', '--no-attach', ...args], { env })
  const sandboxes = async () =>
    JSON.parse((await here.run(['sandbox', 'list', '--format', 'json'])).stdout) as unknown[]

  it.each(['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN'])(
    'the variable %s is refused with exit code 64, by its name and never its value, also in bin/sandbox.sh',
    async (name) => {
      for (const ran of [
        await up([], { [name]: 'ghp_never0told' }),
        await here.script(['up', '--no-attach'], { [name]: 'ghp_never0told' }),
        await here.run(['rebuild'], { env: { [name]: '' } }),
      ]) {
        expect(ran).toMatchObject({ code: 64, stderr: expect.stringContaining(name) })
        expect(ran.stdout + ran.stderr).not.toContain('never0told')
      }
      expect(existsSync(join(here.scene.home.home, 'sandboxes'))).toBe(false)
    },
  )

  it('a variable that SANDBOX_REFUSE_PATTERNS matches is refused with exit code 64, also with a profile', async () => {
    const refused = { ACME_VAULT: 'x' }
    expect(await up([], { ...refused, SANDBOX_REFUSE_PATTERNS: '^(ACME|CORP)_' })).toMatchObject({
      code: 64,
      stderr: expect.stringContaining('ACME_VAULT'),
    })
    expect(await here.run(['profile-new', 'strict', '--refuse', '^ACME_'])).toMatchObject({ code: 0 })
    expect(await up(['--profile', 'strict'], refused)).toMatchObject({
      code: 64,
      stderr: expect.stringContaining('env -u ACME_VAULT craik up --profile strict'),
    })
    expect(await up([], { SANDBOX_REFUSE_PATTERNS: '(' })).toMatchObject({ code: 78 })
  })

  it('a missing profile gives exit code 78 and the commands that list and create profiles', async () => {
    for (const ran of [
      await up(['--profile', 'work']),
      await up([], { SANDBOX_PROFILE: 'work' }),
      await here.script(['--profile=work', 'up', '--no-attach']),
    ])
      expect(ran).toMatchObject({
        code: 78,
        stderr: expect.stringMatching(/profile-list.*profile-new work/s),
      })
  })

  it('a profile is created, listed, and never created twice', async () => {
    expect(await here.run(['profile-new', 'mine', '--login', 'octo'])).toMatchObject({ code: 0 })
    expect(await here.run(['profile-new', 'mine'])).toMatchObject({ code: 4 })
    const listed = JSON.parse((await here.run(['profile-list', '--format', 'json'])).stdout)
    expect(listed).toMatchObject([{ name: 'mine', login: 'octo' }, { name: 'strict' }])
  })

  it('an account other than the profile’s is refused with exit code 78, and the error names both', async () => {
    here.logInToGitHub()
    here.user = { login: 'octo-at-work' }
    for (const ran of [
      await up(['--profile', 'mine']),
      await up([], { SANDBOX_LOGIN_EXPECTED: 'octo' }),
      await here.script(['up', '--no-attach', '--profile=mine']),
    ])
      expect(ran).toMatchObject({ code: 78, stderr: expect.stringMatching(/octo, .*octo-at-work/s) })
    expect(await sandboxes()).toEqual([])
  })

  it('an unknown account is refused if an account is expected, and gives a note if none is', async () => {
    here.user = undefined
    expect(await up(['--profile', 'mine'])).toMatchObject({ code: 78 })
    const record = await here.up()
    expect(record.notes.join()).toContain('could not identify')
    expect(await here.inside('git config user.name; git config user.email')).toBe(
      'Craik sandbox\nsandbox@craik.invalid\n',
    )
  })

  it('git in the sandbox uses the account’s name, and a missing scope or an expiry gives a warning, never a refusal', async () => {
    const expires = new Date(Date.now() + 3_600_000).toISOString().slice(0, 19).replace('T', ' ')
    here.user = { login: 'Octo', name: 'Octo Cat', scopes: 'repo, gist', expires: `${expires} UTC` }
    const { notes } = await here.up(['--profile', 'mine'])
    expect(notes.join('\n')).toMatch(/expires in .*lacks read:org, workflow/s)
    expect(await here.inside('git config user.name; git config user.email')).toBe(
      'Octo Cat\n583231+Octo@users.noreply.github.com\n',
    )
    await here.up([], { GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.test' })
    expect(await here.inside('git config user.name; git config user.email')).toBe('Ada\nada@example.test\n')
  })

  it('without an explicit name, the login is GitHub’s, and it separates the persistent data of sandboxes', async () => {
    here.logInToGitHub('Octo_Acme')
    const elsewhere = here.scene.home.workspace('elsewhere')
    const ran = await here.run(['up', '--no-attach', '--format', 'json', '--workspace', elsewhere], {
      env: { SANDBOX_LOGIN: '' },
    })
    expect(JSON.parse(ran.stdout)).toMatchObject({ login: 'octo-acme', sandbox: 'octo-acme-sandbox' })
    await here.inside('echo mine > ~/.config/llm-state/mine', { SANDBOX_LOGIN: 'octo-acme' })
    expect(await here.inside('ls ~/.config/llm-state')).not.toContain('mine')
    expect(readdirSync(join(here.scene.home.home, 'volumes')).sort()).toEqual(
      ['octo', 'octo-acme']
        .flatMap((login) => ['gh', 'llm', 'toolchains'].map((kind) => `${login}-${kind}`))
        .sort(),
    )
  })

  it('two profiles run at the same time, each with its own folder and its own variables', async () => {
    for (const name of ['one', 'two']) {
      const folder = here.scene.home.workspace(`of-${name}`, { 'whose.txt': `${name}\n` })
      mkdirSync(join(here.scene.home.folder, '.config/sandbox/profiles'), { recursive: true })
      writeFileSync(
        join(here.scene.home.folder, `.config/sandbox/profiles/${name}.env`),
        `SANDBOX_LOGIN=${name}\nSANDBOX_WORKSPACE=${folder}\n`,
        { mode: 0o600 },
      )
    }
    const both = await Promise.all(
      ['one', 'two'].map((name) =>
        here.run(['up', '--no-attach', '--profile', name, '--credentials', 'none']),
      ),
    )
    expect(both).toMatchObject([{ code: 0 }, { code: 0 }])
    for (const name of ['one', 'two'])
      expect(await here.run(['exec', '--profile', name, 'cat', 'whose.txt'])).toMatchObject({
        stdout: `${name}\n`,
      })
  })
})
