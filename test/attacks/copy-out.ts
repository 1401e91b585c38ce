/**
 * A guest fills its workspace with repositories and settings that programs of the host would run. A user copies them
 * out with `craik sandbox cp`. The real git of the host shows whether the attack works.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { type CommandResult, run } from '../craik.ts'
import type { LiveSandbox, SandboxHome } from '../sandbox-home.ts'

/** Git runs this command with the repository's folder as its working folder. */
const PROGRAM = 'fsmonitor = "echo ran >> ran; false"'

const PREPARE = `
set -e
repository() {
  mkdir -p "$1/objects" "$1/refs/heads" "$1/hooks"
  echo 'ref: refs/heads/main' > "$1/HEAD"
  printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\t%s\\n%s' '${PROGRAM}' "$2" > "$1/config"
  printf '#!/bin/sh\\necho ran >> ran\\n' > "$1/hooks/pre-commit"
  chmod +x "$1/hooks/pre-commit"
}
mkdir -p hostile/src
echo fine > hostile/src/a.txt
repository hostile/.git ''
repository cased/.GIT ''
echo fine > cased/a.txt
mkdir only
echo 'touch ran' > only/.envrc
mkdir -p nested/sub/deep
repository nested/sub/deep/.git ''
echo fine > nested/sub/deep/a.txt
worktree="$(printf '\\tworktree = ..\\n')"
repository bare "$worktree"
mkdir -p pointer/data
repository pointer/data/store "$worktree"
echo 'gitdir: data/store' > pointer/.git
mkdir linked
ln -s src linked/.git
ln -s .git/hooks linked/hooks
ln -s src linked/fine
mkdir linked/src
echo fine > linked/src/a.txt
mkdir settings settings/.vscode settings/src
for name in .envrc .ENVRC .vscode/tasks.json .bashrc HEAD; do echo 'touch ran' > "settings/$name"; done
echo fine > settings/src/a.txt
cp hostile/.git/config plain
`

interface CopyRecord {
  readonly files: number
  readonly held_back: readonly string[]
  readonly held_back_count: number
}

export function copyOutAttacks(name: string, open: () => Promise<SandboxHome>): void {
  describe(`files copied out of ${name}`, () => {
    let home: SandboxHome
    let box: LiveSandbox
    let folders = 0

    beforeAll(async () => {
      home = await open()
      box = await home.create()
      expect(await box.exec(['sh', '-c', PREPARE])).toMatchObject({ code: 0 })
    })
    afterAll(() => home?.[Symbol.asyncDispose]())

    const git = (cwd: string, ...args: string[]): Promise<CommandResult> =>
      run('git', args, {
        cwd,
        ...home.user,
        // Ignores all Git settings of the host.
        env: { PATH: process.env.PATH!, HOME: home.folder, GIT_CONFIG_NOSYSTEM: '1' },
      })
    const fresh = () => home.workspace(`target-${folders++}`)
    const copy = (inside: string, local: string, ...options: string[]) =>
      home.run(['sandbox', 'cp', `${box.id}:${inside}`, local, '--format', 'json', ...options])
    const copyAndParse = async (inside: string, local: string, ...options: string[]) => {
      const { code, stdout, stderr } = await copy(inside, local, ...options)
      expect(code, stderr).toBe(0)
      return { ...(JSON.parse(stdout) as CopyRecord), stderr }
    }
    /** Creates a repository of the user. */
    const repository = async (...options: string[]) => {
      const folder = fresh()
      expect(await git(folder, 'init', '-q', ...options)).toMatchObject({ code: 0 })
      return folder
    }
    /** Runs the command that a shell prompt or an editor runs as soon as a user opens the folder. */
    const expectNothingRan = async (...folders: string[]) => {
      for (const folder of folders) {
        await git(folder, 'status')
        expect(existsSync(join(folder, 'ran')), `git status in ${folder}`).toBe(false)
        expect(existsSync(join(folder, '../ran')), `git status in ${folder}`).toBe(false)
      }
    }

    it('the attack works with --include-unsafe: git status runs the program of the guest', async () => {
      const target = fresh()
      const { files, held_back_count } = await copyAndParse(
        'hostile',
        join(target, 'new'),
        '--include-unsafe',
      )
      expect([files, held_back_count]).toEqual([4, 0])
      await git(join(target, 'new'), 'status')
      expect(readFileSync(join(target, 'new/ran'), 'utf8')).toContain('ran')
    })

    it('a folder is copied without its repository, and the command reports what it held back', async () => {
      const target = join(fresh(), 'new')
      const { files, held_back, held_back_count, stderr } = await copyAndParse('hostile', target)
      expect([files, held_back]).toEqual([1, ['.git']])
      expect(held_back_count).toBeGreaterThan(3)
      expect(stderr).toMatch(/held back .*: \.git\n.*git format-patch.*\n.*--include-unsafe/)
      expect(readdirSync(target)).toEqual(['src'])
      await expectNothingRan(target)
    })

    it('an existing repository keeps its own configuration and hooks', async () => {
      const target = await repository()
      const config = readFileSync(join(target, '.git/config'), 'utf8')
      await copyAndParse('hostile/.', target)
      expect(readFileSync(join(target, 'src/a.txt'), 'utf8')).toBe('fine\n')
      expect(readFileSync(join(target, '.git/config'), 'utf8')).toBe(config)
      expect(existsSync(join(target, '.git/hooks/pre-commit'))).toBe(false)
      await expectNothingRan(target)
    })

    it.each([
      ['a file onto the configuration of a repository', 'plain', '.git/config'],
      ['a file as a new hook', 'hostile/.git/hooks/pre-commit', '.git/hooks/pre-commit'],
      ['a file into the hooks', 'hostile/.git/hooks/pre-commit', '.git/hooks'],
      ['a folder into the repository’s own folder', 'hostile/.git/hooks', '.git'],
      ['what is in a folder into it', 'hostile/.git/.', '.git'],
      ['a folder under git’s name, in other case', 'hostile/.git', '.GIT'],
      ['a file that gets a trusted name', 'plain', '.envrc'],
      ['a file that has one', 'settings/.envrc', '.'],
      ['a file that has one, in other case', 'settings/.ENVRC', '.'],
      ['a file into a trusted folder', 'settings/src/a.txt', '.vscode'],
      ['a file through a link to a trusted folder', 'settings/src/a.txt', 'link/tasks.json'],
      ['a file that makes a folder a repository', 'plain', 'HEAD'],
    ])('%s is not written at all', async (_, inside, local) => {
      const target = await repository()
      mkdirSync(join(target, '.vscode'))
      symlinkSync('.vscode', join(target, 'link'))
      const before = readdirSync(target, { recursive: true }).sort()
      const config = readFileSync(join(target, '.git/config'), 'utf8')
      const { code, stdout, stderr } = await copy(inside, join(target, local))
      expect([code, stdout]).toEqual([ERRORS.held_back.exit, ''])
      expect(stderr).toContain('--include-unsafe')
      expect(readdirSync(target, { recursive: true }).sort()).toEqual(before)
      expect(readFileSync(join(target, '.git/config'), 'utf8')).toBe(config)
      await expectNothingRan(target)
    })

    it.each([
      ['a repository in a folder of the folder', 'nested', ['sub', 'sub/deep'], ['sub/deep/.git']],
      ['a repository whose folder is spelt in other case', 'cased', ['.'], ['.GIT']],
      ['a bare repository', 'bare', ['.', 'hooks'], ['HEAD']],
      [
        'a file .git that names a repository elsewhere',
        'pointer',
        ['.', 'data/store'],
        ['.git', 'data/store/HEAD'],
      ],
      ['links into a repository', 'linked', ['.', 'src'], ['.git', 'hooks']],
    ])('%s: creates no repository on the host', async (_, inside, folders, expected) => {
      const target = join(fresh(), 'new')
      const { held_back } = await copyAndParse(inside, target)
      expect([...held_back].sort()).toEqual(expected)
      await expectNothingRan(...folders.map((folder) => join(target, folder)))
    })

    it('an existing bare repository keeps its own configuration and hooks', async () => {
      const target = await repository('--bare')
      const inner = join(target, 'hooks')
      const config = readFileSync(join(target, 'config'), 'utf8')
      for (const [inside, local] of [
        ['bare/.', target],
        ['plain', join(target, 'config')],
        ['bare/hooks/pre-commit', inner],
        ['bare/hooks/.', inner],
      ] as const)
        expect((await copy(inside, local)).code, inside).toBe(ERRORS.held_back.exit)
      expect(readFileSync(join(target, 'config'), 'utf8')).toBe(config)
      expect(existsSync(join(inner, 'pre-commit'))).toBe(false)
      // It also keeps them when the folder above it is copied over.
      const outer = fresh()
      expect(await git(outer, 'init', '-q', '--bare', 'bare')).toMatchObject({ code: 0 })
      await copyAndParse('.', outer)
      expect(readFileSync(join(outer, 'bare/config'), 'utf8')).not.toContain('fsmonitor')
      expect(existsSync(join(outer, 'bare/hooks/pre-commit'))).toBe(false)
    })

    it('settings are held back, and links to safe targets are copied', async () => {
      const target = join(fresh(), 'new')
      const { held_back, held_back_count } = await copyAndParse('settings', target)
      expect([...held_back].sort()).toEqual(['.ENVRC', '.bashrc', '.envrc', '.vscode', 'HEAD'])
      expect(held_back_count).toBe(6)
      expect(readdirSync(target)).toEqual(['src'])
      await copyAndParse('linked', join(target, 'linked'))
      expect(readlinkSync(join(target, 'linked/fine'))).toBe('src')
    })

    it('copying a folder fails when everything in it is held back', async () => {
      const { code, stdout } = await copy('only', join(fresh(), 'new'))
      expect([code, JSON.parse(stdout)]).toMatchObject([
        ERRORS.held_back.exit,
        { files: 0, held_back: ['.envrc'], held_back_count: 1 },
      ])
    })

    it('nothing is written into Craik’s own home', async () => {
      const { code, stderr } = await copy('plain', join(home.home, 'egress.yaml'))
      expect([code, existsSync(join(home.home, 'egress.yaml'))]).toEqual([ERRORS.held_back.exit, false])
      expect(stderr).toContain('Craik')
    })

    it('standard output gets the bytes of any file, because that writes no file on the host', async () => {
      const { code, stdout } = await home.run(['sandbox', 'cp', `${box.id}:settings/.envrc`, '-'])
      expect([code, stdout]).toEqual([0, 'touch ran\n'])
    })

    it('copying into a sandbox holds nothing back, and does not accept the option', async () => {
      const folder = home.workspace(`in-${folders++}`, { '.envrc': 'x\n', 'a.txt': 'a\n' })
      const { files } = await home.json<CopyRecord>(['sandbox', 'cp', folder, `${box.id}:in`])
      expect(files).toBe(2)
      const { code } = await home.run(['sandbox', 'cp', folder, `${box.id}:in`, '--include-unsafe'])
      expect(code).toBe(ERRORS.usage.exit)
    })
  })
}
