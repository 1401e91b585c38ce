/**
 * The workspace: a copy that stays in the sandbox, or the folder itself, with its owner's permissions and with
 * protected files.
 */
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ERRORS } from '../../../src/errors.ts'
import { FOREIGN_UID, USER_UID } from '../../sandbox-home.ts'
import { type GetInstance, waitUntil } from './instance.ts'

const FILES = { 'readme.txt': 'hello\n', 'src/a.txt': 'a\n' }
const REPOSITORY = {
  ...FILES,
  '.git/HEAD': 'ref: refs/heads/main\n',
  '.git/config': '[core]\n\tbare = false\n',
  '.git/hooks/pre-push': '#!/bin/sh\n',
  '.vscode/settings.json': '{}\n',
}

/** A program on the host would execute or trust each of these files. */
const ATTACKS = [
  'mkdir -p .git/hooks && echo x > .git/hooks/pre-commit',
  'echo x > .git/hooks/pre-push',
  'echo x >> .git/config',
  'echo x > .git/config.worktree',
  'echo /elsewhere > .git/commondir',
  'mkdir -p .git/info && echo x > .git/info/attributes',
  'mv .git gone && mkdir .git',
  'test -e .git/hooks && rm -rf .git/hooks && ! test -e .git/hooks',
  'ln -sfT /tmp .git',
  'mkdir -p .claude && echo x > .claude/settings.json',
  'mkdir -p .vscode && echo x > .vscode/tasks.json',
  'echo x > .vscode/settings.json',
  'mv .vscode gone-too',
  'mv .claude gone-three',
  'echo x > .envrc',
  'echo x > .npmrc',
  'rm -f .mcp.json && echo x > .mcp.json',
  'ln -sf /tmp/x .envrc',
]

function replaceFile(at: string): void {
  writeFileSync(`${at}.lock`, existsSync(at) ? readFileSync(at) : '')
  chownSync(`${at}.lock`, USER_UID, USER_UID)
  renameSync(`${at}.lock`, at)
}

export function workspaceContract(getInstance: GetInstance): void {
  const createInPlace = (folder: string) =>
    getInstance().home.tryToCreate(['--workspace', folder, '--in-place'])

  describe('a workspace', () => {
    it('of another user is copied, and the sandbox owns the copy', async () => {
      const { home } = getInstance()
      const folder = home.foreignWorkspace('theirs', FILES)
      const names = readdirSync(folder).sort()
      const box = await home.create(['--workspace', folder])
      expect((await box.exec(['ls', '-A'])).stdout.trim().split('\n').sort()).toEqual(names)
      const script = 'for f in *; do rm -rf "$f"; done; echo new > made; ls -A'
      expect((await box.exec(['sh', '-c', script])).stdout).toBe('made\n')
      expect(readdirSync(folder).sort()).toEqual(names)
      await box.delete()
    })

    it('in place is the folder itself, with the permissions of its owner', async () => {
      const { home } = getInstance()
      const folder = home.workspace('own', FILES)
      const box = await home.create(['--workspace', folder, '--in-place'])
      expect(box.body).toMatchObject({ workspace: { mode: 'in-place', folder }, host_uid: USER_UID })
      const script = 'cat readme.txt; echo changed > readme.txt; mkdir made; echo new > made/file'
      expect(await box.exec(['sh', '-c', script])).toMatchObject({ code: 0, stdout: 'hello\n' })
      expect(readFileSync(join(folder, 'readme.txt'), 'utf8')).toBe('changed\n')
      for (const name of ['readme.txt', 'made', 'made/file'])
        expect(lstatSync(join(folder, name)).uid).toBe(USER_UID)
      writeFileSync(join(folder, 'from-outside'), 'seen')
      expect((await box.exec(['cat', 'from-outside'])).stdout).toBe('seen')
      await box.delete()
      expect(readdirSync(folder).sort()).toEqual(['from-outside', 'made', 'readme.txt', 'src'])
    })

    it('in place of another user keeps that owner when Craik runs as root, and is refused otherwise', async () => {
      const { home } = getInstance()
      const folder = home.foreignWorkspace('theirs-in-place', FILES)
      if (home.identity === 'user') {
        const { code, stderr } = await createInPlace(folder)
        expect([code, stderr]).toEqual([ERRORS.usage.exit, expect.stringContaining('--in-place')])
        return
      }
      const box = await home.create(['--workspace', folder, '--in-place'])
      expect(box.body.host_uid).toBe(FOREIGN_UID)
      await box.exec(['touch', 'made'])
      expect(lstatSync(join(folder, 'made')).uid).toBe(FOREIGN_UID)
      await box.delete()
    })

    it('in place that root owns is refused', async () => {
      const { home } = getInstance()
      const folder = home.workspace('of-root', FILES)
      if (process.getuid?.() === 0) chownSync(folder, 0, 0)
      const { code, stderr } = await createInPlace(process.getuid?.() === 0 ? folder : '/usr/share')
      expect([code, stderr]).toEqual([ERRORS.usage.exit, expect.stringMatching(/^craik: .+\n {2}.+\n$/)])
      expect(readdirSync(folder).sort()).toEqual(['readme.txt', 'src'])
    })

    it.each([
      ['a repository', REPOSITORY],
      ['an empty folder', {}],
    ])('in place has protected files that the sandbox cannot change: %s', async (kind, files) => {
      const { home } = getInstance()
      const folder = home.workspace(`guarded ${kind}`, files)
      const before = contents(folder)
      const box = await home.create(['--workspace', folder, '--in-place'])
      const each = 'for attack; do (eval "$attack") 2>/dev/null && echo "$attack"; done; true'
      expect((await box.exec(['bash', '-c', each, 'attacks', ...ATTACKS])).stdout).toBe('')
      expect((await box.exec(['sh', '-c', 'mkdir work && echo fine > work/file'])).code).toBe(0)
      if (kind === 'a repository')
        expect((await box.exec(['sh', '-c', 'echo x > .git/ORIG_HEAD && rm .git/ORIG_HEAD'])).code).toBe(0)
      await box.delete()
      expect(contents(folder)).toEqual({ ...before, 'work/file': 'fine\n' })
      expect(readdirSync(folder).sort()).toEqual([...new Set([...topNames(files), 'work'])].sort())
    })

    // Replaces a file as git, editors and package managers do. The old mount over the name is then gone.
    it.each([
      ['.git/config', (at: string) => replaceFile(at)],
      ['.npmrc', (at: string) => replaceFile(at)],
      ['.vscode', (at: string) => renameSync(at, `${at}-elsewhere`)],
    ])(
      'in place ends the sandbox when the host replaces %s, reports that, and is protected again after a resume',
      async (name, replace) => {
        const { home, client } = getInstance()
        const folder = home.workspace(`replaced-${name.replaceAll(/[^a-z]/g, '')}`, REPOSITORY)
        const box = await home.create(['--workspace', folder, '--in-place'])
        // Git's everyday changes do not end the sandbox.
        replaceFile(join(folder, '.git/HEAD'))
        replaceFile(join(folder, '.git/index'))
        const { code } = await box.exec(['sh', '-c', `sleep 1; echo x > ${name}/x || echo x >> ${name}`])
        expect(code).not.toBe(0)
        replace(join(folder, name))
        await waitUntil(async () => (await client.sandboxes.get(box.id)).state === 'lost')
        expect(await client.sandboxes.get(box.id)).toMatchObject({
          notice: expect.stringContaining(`${name} in its workspace was replaced`),
        })
        await client.sandboxes.resume(box.id)
        const again = await box.exec([
          'sh',
          '-c',
          `mkdir -p ${name}; echo x > ${name}/x || echo x >> ${name}`,
        ])
        expect(again.code).not.toBe(0)
        await box.delete()
      },
    )

    it('in place, shared by two sandboxes, stays protected until both are deleted', async () => {
      const { home } = getInstance()
      const folder = home.workspace('shared', FILES)
      const [first, second] = [
        await home.create(['--workspace', folder, '--in-place']),
        await home.create(['--workspace', folder, '--in-place']),
      ]
      await first.delete()
      expect((await second.exec(['sh', '-c', 'echo x > .envrc || mkdir -p .claude/x'])).code).not.toBe(0)
      await second.delete()
      expect(readdirSync(folder).sort()).toEqual(['readme.txt', 'src'])
    })

    it('that contains Craik’s own home is refused', async () => {
      const { home } = getInstance()
      mkdirSync(home.path('nested'), { recursive: true })
      const { code } = await createInPlace(home.folder)
      expect(code).toBe(ERRORS.usage.exit)
    })
  })
}

const topNames = (files: Readonly<Record<string, string>>) =>
  Object.keys(files).map((path) => path.split('/')[0]!)

/** Maps every file to its content. */
function contents(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return Object.fromEntries(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path.slice(folder.length + 1), readFileSync(path, 'utf8')]),
  )
}
