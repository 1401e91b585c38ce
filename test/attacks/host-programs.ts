/**
 * Programs in a sandbox write files to the folder that is first on the PATH of the user's shell. The host must never
 * run them.
 */
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type HomeInstance, type LiveSandbox, SandboxHome } from '../sandbox-home.ts'

/** The ways in which a folder of the workspace gets on PATH: the folder, and the files that the tool creates. */
const TOOLS = {
  'an activated virtualenv': { folder: '.venv/bin', files: { '.venv/pyvenv.cfg': 'home = /usr/bin\n' } },
  '`npm run`': { folder: 'node_modules/.bin', files: { 'package.json': '{}' } },
  direnv: { folder: 'tools', files: { '.envrc': 'PATH_add tools\n' } },
} as const

const NAMES = [
  'gh',
  'npm',
  'node',
  'secret-tool',
  'security',
  'git',
  'sh',
  'env',
  'bwrap',
  'du',
  'stty',
] as const
const DEADLINE_MS = 60_000

export function attackHostPrograms(instance: HomeInstance): void {
  describe.each(Object.entries(TOOLS))('with %s', (_tool, { folder, files }) => {
    let home: SandboxHome
    let box: LiveSandbox
    let workspace: string
    let env: { readonly PATH: string }
    const escapedPath = () => home.path('open/escaped')
    const markerPath = () => home.path('open/asked')
    const answers = () =>
      existsSync(markerPath()) ? readFileSync(markerPath(), 'utf8').split('\n').length - 1 : 0

    beforeAll(async () => {
      home = await SandboxHome.open(instance)
      workspace = home.workspace('project', { 'readme.md': '# project\n', ...files, [`${folder}/keep`]: '' })
      // A program on the host or in the sandbox may write its mark here. Only programs on the host can reach the
      // folder.
      mkdirSync(home.path('open'))
      chmodSync(home.path('open'), 0o777)
      // The user's own gh, outside of every workspace, through a link as package managers create it.
      put('tools/gh-2/gh', `#!/bin/sh\necho asked >> ${markerPath()}\necho gho_${'a'.repeat(36)}\n`)
      mkdirSync(home.path('.local/bin'), { recursive: true })
      symlinkSync(home.path('tools/gh-2/gh'), home.path('.local/bin/gh'))
      put('.local/bin/npm', `#!/bin/sh\necho asked >> ${markerPath()}\necho '"1.0.0"'\n`)
      // The file's time is in the future, so that Craik reads the login at every request instead of every five minutes.
      put('.config/gh/hosts.yml', 'github.com:\n  user: octocat\n')
      const later = new Date(Date.now() + 3_600_000)
      utimesSync(home.path('.config/gh/hosts.yml'), later, later)
      env = { PATH: `${join(workspace, folder)}:${home.path('.local/bin')}:${process.env.PATH}` }
      // The first command starts the supervisor, from the user's shell.
      await home.json(['sandbox', 'list', '--format', 'json'], { env })
      box = await home.create(['--in-place', '--workspace', workspace])
      const script = `#!/bin/sh\necho "$0 $*" >> ${escapedPath()}\necho gho_${'b'.repeat(36)}\n`
      const written = await box.exec([
        'sh',
        '-c',
        'umask 022; for n in $2; do printf %s "$1" > "$3/$n" && chmod 755 "$3/$n"; done',
        'sh',
        script,
        NAMES.join(' '),
        folder,
      ])
      expect(written, written.stderr).toMatchObject({ code: 0 })
      expect(existsSync(join(workspace, folder, 'gh'))).toBe(true)
    })
    afterAll(() => home?.[Symbol.asyncDispose]())

    function put(path: string, content: string): void {
      mkdirSync(dirname(home.path(path)), { recursive: true })
      writeFileSync(home.path(path), content, { mode: 0o755 })
      chownSync(home.path(path), home.uid, home.uid)
    }

    it('the supervisor runs the user’s gh, and nothing from the workspace', async () => {
      const before = answers()
      const endMs = performance.now() + DEADLINE_MS
      while (answers() === before && !existsSync(escapedPath()) && performance.now() < endMs) {
        await home.run(['sandbox', 'logins', box.id])
        await sleep(50)
      }
      expect(existsSync(escapedPath()) ? readFileSync(escapedPath(), 'utf8') : '').toBe('')
      expect(answers()).toBeGreaterThan(before)
    })

    it('a supervisor that starts after the programs were written runs nothing from the workspace', async () => {
      await home.json(['supervisor', 'stop'])
      const before = answers()
      for (const args of [
        ['sandbox', 'logins', box.id],
        ['sandbox', 'list'],
        ['sandbox', 'logins', box.id],
      ])
        await home.run(args, { env })
      expect(existsSync(escapedPath()) ? readFileSync(escapedPath(), 'utf8') : '').toBe('')
      expect(answers()).toBeGreaterThan(before)
    })

    it.each(['accounts --check', 'doctor', 'harness update --check', 'sandbox create --env A=b'])(
      '`craik %s` in that shell runs nothing from the workspace',
      async (typed) => {
        await home.run(typed.split(' '), { env })
        expect(existsSync(escapedPath()) ? readFileSync(escapedPath(), 'utf8') : '').toBe('')
      },
    )

    it('no command runs anything from the workspace when its folder is the only one on PATH', async () => {
      const only = { PATH: join(workspace, folder) }
      rmSync(markerPath(), { force: true })
      await home.json(['supervisor', 'stop'])
      for (const args of [['sandbox', 'list'], ['sandbox', 'logins', box.id], ['accounts'], ['doctor']])
        await home.run(args, { env: only })
      expect(existsSync(escapedPath()) ? readFileSync(escapedPath(), 'utf8') : '').toBe('')
    })
  })
}
