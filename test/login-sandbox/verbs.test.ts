/** Every verb of a login sandbox, as root and as an ordinary user. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { canBe, IDENTITIES, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { LoginSandboxScene } from './scene.ts'

describe.each(IDENTITIES)('as %s', (identity) => {
  describe.skipIf(!canBe(identity))(canBe(identity) ? 'the sandbox of a login' : ROOT_IS_NEEDED!, () => {
    let here: LoginSandboxScene
    beforeAll(async () => {
      here = await LoginSandboxScene.open({ identity })
    }, 180_000)
    afterAll(() => here?.[Symbol.asyncDispose]())

    it('refuses the commands that need it before it is up, with exit code 2 and the command to type', async () => {
      for (const verb of [
        ['exec', 'true'],
        ['down'],
        ['run-headless', 'true'],
        ['verify-llm-auth'],
        ['test-repo', '.'],
      ])
        expect(await here.run(verb)).toMatchObject({ code: 2, stderr: expect.stringContaining('craik up') })
      expect(await here.run(['down', '--login', 'ada'])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('craik up --login ada'),
      })
      expect(JSON.parse((await here.run(['status', '--format', 'json'])).stdout)).toEqual([])
    })

    it('starts without any configuration or login, and not as root', async () => {
      expect(await here.up()).toMatchObject({
        login: 'octo',
        sandbox: 'octo-sandbox',
        how: 'made',
        workspace_mode: 'in-place',
      })
      const output = await here.inside('id -u; pwd; echo "$HOME"; cat readme.txt')
      expect(output).toBe('1000\n/workspace/home/project\n/workspace/home\nours\n')
      const programs = identity === 'root' ? 'claude codex gemini opencode kimi npm' : 'kimi npm'
      await here.inside(`for name in ${programs}; do command -v $name || exit; done`)
      expect(await here.up()).toMatchObject({ how: 'running' })
      const { stdout } = await here.run(['up', '--no-attach', '--format', 'table'])
      expect(stdout).toMatch(/^ {2}limits {3}.*disk: not-enforced$/m)
      expect(stdout).toMatch(/^ {2}next .*craik enter --login octo {3}.*craik down --login octo$/m)
    })

    it('is listed, and inspected with all details', async () => {
      for (const verb of ['status', 'list'])
        expect(JSON.parse((await here.run([verb, '--format', 'json'])).stdout)).toMatchObject([
          { login: 'octo', sandbox: 'octo-sandbox', state: 'running', workspace: here.workspace },
        ])
      const reported = JSON.parse((await here.run(['inspect', 'octo', '--format', 'json'])).stdout)
      expect(reported).toMatchObject({ login: 'octo', place: { state: 'running' }, inbox: here.inbox })
      expect(reported.volumes.map(({ name }: { name: string }) => name)).toEqual([
        'octo-llm',
        'octo-toolchains',
        'octo-gh',
      ])
    })

    it('runs a command with its own arguments, input, output and exit code', async () => {
      const ran = await here.run(
        ['exec', 'sh', '-c', 'cat; echo "$@" >&2; exit 7', 'sh', '--profile', '-x'],
        {
          input: 'typed\n',
        },
      )
      expect(ran).toEqual({ code: 7, stdout: 'typed\n', stderr: '--profile -x\n' })
      expect(await here.run(['exec', '--', 'true'])).toMatchObject({ code: 0 })
      expect(await here.run(['exec'])).toMatchObject({ code: 2 })
    })

    it('stores the results of a headless run, for its owner alone, with keys masked', async () => {
      const key = `sk-ant-api03-${'Ab1'.repeat(31)}AA`
      const ran = await here.run(['run-headless', 'sh', '-c', `echo out ${key}; echo err >&2; exit 3`])
      expect(ran).toMatchObject({ code: 3, stdout: expect.stringContaining('out') })
      const [run] = readdirSync(join(here.inbox, 'headless-runs'))
      const folder = join(here.inbox, 'headless-runs', run!)
      expect(statSync(folder).mode & 0o777).toBe(0o700)
      const files = Object.fromEntries(
        Object.entries(here.readSaved()).flatMap(([path, text]) =>
          path.startsWith('headless-runs/') ? [[path.split('/').at(-1), text]] : [],
        ),
      )
      expect(Object.keys(files).sort()).toEqual([
        'command.txt',
        'exit_code',
        'meta.env',
        'stderr.log',
        'stdout.log',
      ])
      expect(files).toMatchObject({
        exit_code: '3\n',
        'stderr.log': 'err\n',
        'meta.env': expect.stringContaining('LOGIN=octo'),
      })
      expect(JSON.stringify(files)).not.toContain(key)
    })

    it('runs the tests of a repository in the workspace, and reports when it finds none', async () => {
      writeFileSync(join(here.workspace, 'Makefile'), 'test:\n\t@echo tested; exit 0\n')
      expect(await here.run(['test-repo', '.'])).toMatchObject({ code: 0, stdout: 'tested\n' })
      mkdirSync(join(here.workspace, 'bare'))
      expect(await here.run(['test-repo', 'bare'])).toMatchObject({
        code: 66,
        stderr: expect.stringContaining('no tests found'),
      })
      expect(await here.run(['test-repo', '../x'])).toMatchObject({ code: 2 })
    })

    it('saves what changed since it was entered', async () => {
      await here.inside('mkdir -p ~/bin && echo x > ~/bin/tool && chmod +x ~/bin/tool')
      expect((await here.run(['save'])).code).toBe(0)
      const changes = Object.entries(here.readSaved()).find(([path]) => path.endsWith('changes.md'))
      expect(changes?.[1]).toContain('tool')
    })

    it('stops and starts again with its home folder, its volumes and its workspace', async () => {
      await here.inside(
        'echo kept > ~/kept; echo kept > ~/.local/kept; echo kept > ~/.config/llm-state/kept; echo kept > kept',
      )
      expect(await here.run(['down'])).toMatchObject({ code: 0 })
      expect(await here.run(['exec', 'true'])).toMatchObject({ code: 2 })
      expect(await here.up()).toMatchObject({ how: 'resumed' })
      expect(await here.inside('cat ~/kept ~/.local/kept ~/.config/llm-state/kept kept')).toBe(
        'kept\n'.repeat(4),
      )
    })

    it('records the exit code of a headless run that was denied, and not that of a kill', async () => {
      const { id } = await here.up()
      type Grant = { id: string; capability: string; target: { ref?: string } }
      const grants = await here.scene.home.json<Grant[]>(['grant', 'list'])
      const mine = grants.find(
        (grant) => grant.capability === 'sandbox.exec' && grant.target.ref === `sandbox/${id}`,
      )
      await here.scene.home.json(['grant', 'revoke', mine!.id])
      expect(await here.run(['run-headless', 'true'])).toMatchObject({ code: 77 })
      const runs = readdirSync(join(here.inbox, 'headless-runs')).sort()
      const readSaved = (name: string) =>
        readFileSync(join(here.inbox, 'headless-runs', runs.at(-1)!, name), 'utf8')
      expect(readSaved('exit_code')).toBe('77\n')
      expect(readSaved('stderr.log')).toMatch(/^craik: /)
      expect(await here.run(['rebuild'])).toMatchObject({ code: 0 })
      await here.inside('echo kept > ~/kept')
    })

    it('is not lost when a rebuild is refused', async () => {
      for (const wrong of [
        ['--workspace', '/nonexistent/folder'],
        ['--apt', 'jq'],
        ['--harness', 'bogus'],
        ['--egress', 'bogus'],
      ])
        expect(await here.run(['rebuild', '--yes', ...wrong])).toMatchObject({ code: 2 })
      expect(await here.inside('cat ~/kept')).toBe('kept\n')
    })

    it('is rebuilt with its persistent data, and without the rest of its home folder', async () => {
      await here.up(['--egress', 'npm,pypi'])
      const recreated = await here.run(['rebuild', '--egress', 'pypi', '--format', 'json'])
      expect(recreated).toMatchObject({ code: 0 })
      // A grant is only for the sandbox that it was created for.
      expect(JSON.parse(recreated.stdout).notes).toContainEqual(
        expect.stringMatching(/no longer allowed: npm;.*craik up --login octo --egress npm$/),
      )
      expect(
        await here.inside(
          'cat ~/.local/kept ~/.config/llm-state/kept kept; ls -A ~ | grep -c "^kept$" || true',
        ),
      ).toBe(`${'kept\n'.repeat(3)}0\n`)
      expect(await here.inside('find ~/.local ~/.config ! -user agent | wc -l')).toBe('0\n')
    })

    it('refuses to start with another folder, or with other settings', async () => {
      const other = here.scene.home.workspace('other')
      const ran = await here.run(['up', '--no-attach', '--workspace', other])
      expect(ran).toMatchObject({
        code: 4,
        stderr: expect.stringMatching(/has the workspace .*craik rebuild/s),
      })
      expect(ran.stderr).toContain(`craik rebuild --login octo --workspace ${other}`)
      expect(await here.run(['up', '--no-attach', '--credentials', 'none'])).toMatchObject({ code: 4 })
      expect(await here.run(['up', '--no-attach', '--apt', 'jq'])).toMatchObject({ code: 2 })
      if (identity === 'root')
        expect(await here.run(['up', '--no-attach', '--harness', 'kimi'])).toMatchObject({ code: 4 })
    })

    it('refuses an inbox that cannot be written, or that the sandbox could change', async () => {
      const link = here.scene.home.path('linked-inbox')
      symlinkSync(here.inbox, link)
      for (const [inbox, code] of [
        [link, 88],
        [join(here.workspace, 'readme.txt'), 2],
        [join(here.workspace, 'inbox'), 2],
      ] as const)
        expect(await here.run(['up', '--no-attach', '--inbox', inbox])).toMatchObject({ code })
    })

    it('is pruned only when it is stopped, only with --apply, and its volumes only with --hard', async () => {
      expect(JSON.parse((await here.run(['prune', '--format', 'json'])).stdout)).toEqual([])
      await here.run(['down'])
      const shown = await here.run(['prune', '--format', 'json'])
      expect(JSON.parse(shown.stdout)).toMatchObject([
        { kind: 'sandbox', name: 'octo-sandbox', removed: false },
      ])
      await here.run(['prune', '--apply'])
      expect(JSON.parse((await here.run(['list', '--format', 'json'])).stdout)).toEqual([])
      expect(existsSync(join(here.scene.home.home, 'volumes/octo-llm/kept'))).toBe(true)
      expect(JSON.parse((await here.run(['prune', '--hard', '--format', 'json'])).stdout)).toHaveLength(3)
    })

    it('notifies an open terminal when it is stopped or removed, with the command to type then', async () => {
      await here.up()
      using stopped = here.terminal(['enter'])
      await stopped.says('octo-sandbox ~/project $')
      expect(await here.run(['down'])).toMatchObject({ code: 0 })
      await stopped.exited
      expect(stopped.screen).toMatch(
        /craik: the sandbox octo-sandbox was stopped\s+start it again: {2}craik up --login octo\s+$/,
      )
      using removed = here.terminal(['up'])
      await removed.says('octo-sandbox ~/project $')
      expect(await here.run(['nuke', '--yes'])).toMatchObject({ code: 0, stderr: '' })
      await removed.exited
      expect(removed.screen).toMatch(
        /craik: the sandbox octo-sandbox was removed, which closed this terminal\s+recreate it: {2}craik up --login octo\s+$/,
      )
    })

    it('is removed with all its data after a confirmation, and not before', async () => {
      await here.up()
      expect(await here.run(['nuke'])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('craik nuke --login octo --yes'),
      })
      // The error suggests the login that the command named, whatever the environment contains.
      expect(await here.run(['nuke', '--login', 'octo'], { env: { SANDBOX_LOGIN: 'ada' } })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('craik nuke --login octo --yes'),
      })
      expect(await here.run(['nuke', '--yes'])).toMatchObject({ code: 0 })
      expect(readdirSync(join(here.scene.home.home, 'volumes'))).toEqual([])
      expect(await here.run(['nuke', '--yes'])).toMatchObject({ code: 0 })
      expect(existsSync(join(here.workspace, 'kept'))).toBe(true)
    })
  })
})
