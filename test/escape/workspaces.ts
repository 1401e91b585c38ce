/** Contents of a workspace, and files that a sandbox puts there to mislead the host. */
import { once } from 'node:events'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { NODE, run } from '../craik.ts'
import type { LiveSandbox } from '../sandbox-home.ts'
import { expectToWork, type Scenario, type Scene, tryIn } from './scene.ts'

const READ = 'open(args[0]).read(1)'
const WRITE = `
  os.makedirs(os.path.dirname(args[0]), exist_ok=True)
  open(args[0], 'w').write('run me')`
const RENAME = "os.rename(args[0], args[0] + '.away')"
const REPLACE = `
  os.symlink('/tmp/elsewhere', args[0] + '.new')
  try: os.rename(args[0] + '.new', args[0])
  except OSError:
      os.unlink(args[0] + '.new')
      raise`

/** Programs of the host run these files or follow their settings as soon as a user opens the folder. */
const TRUSTED = ['.git/hooks/pre-commit', '.git/config', '.vscode/tasks.json', '.envrc']
const TRUSTED_LATER = [
  '.claude/settings.json',
  '.mcp.json',
  '.husky/pre-push',
  '.idea/workspace.xml',
  '.npmrc',
]
const EXPECTED_TEXT = 'for nobody inside'
const SANDBOX_PROJECT = '/workspace/home/project'
const REFUSED = /^failed (EROFS|EBUSY|EACCES|EPERM|EEXIST|ENOTDIR)$/

export const workspaces: Scenario = (scene) => {
  const refusalOf = async ({ home }: Scene, folder: string): Promise<string> => {
    const { code, stdout, stderr } = await home.tryToCreate(['--in-place', '--workspace', folder])
    expect(code, stdout).not.toBe(0)
    return stderr
  }

  it('a workspace whose path contains a link is not mounted', async () => {
    const { home, outside } = scene()
    writeFileSync(join(outside, 'behind-a-link'), 'x')
    const folder = home.workspace('with-a-link', { 'project/file': 'x' })
    symlinkSync(outside, join(folder, 'link'))
    symlinkSync(join(folder, 'project'), home.path('to-a-project'))
    mkdirSync(join(outside, 'project'))
    const mounted = ['--bind', join(folder, 'link'), '/shown']
    await expectToWork([], READ, ['/shown/behind-a-link'], { shown: mounted })
    for (const path of [join(folder, 'link'), join(folder, 'link/project'), home.path('to-a-project')])
      expect(await refusalOf(scene(), path), path).toContain('link')
  })

  it('a workspace that contains a socket of the host is not mounted', async () => {
    const { home } = scene()
    const folder = home.workspace('with-a-socket', { 'deep/er/file': '' })
    const server = createServer((socket) => socket.end()).listen(join(folder, 'deep/er/host.sock'))
    await once(server, 'listening')
    try {
      await run('chmod', ['777', join(folder, 'deep/er/host.sock')])
      const program = 'socket.socket(socket.AF_UNIX).connect(args[0])'
      await expectToWork([], program, ['/shown/deep/er/host.sock'], {
        shown: ['--ro-bind', folder, '/shown'],
      })
      expect(await refusalOf(scene(), folder)).toMatch(/contains sockets.*deep\/er\/host\.sock/)
    } finally {
      server.close()
    }
  })

  it('a sandbox’s environment does not control its sidecar', async () => {
    const { home, outside } = scene()
    const evil = join(outside, 'evil.cjs')
    writeFileSync(evil, "require('node:fs').writeFileSync(process.env.MARKER, 'loaded')")
    const marker = join(outside, 'loaded')
    await run(NODE, ['-e', '0'], { env: { NODE_OPTIONS: `--require ${evil}`, MARKER: marker } })
    expect(existsSync(marker), 'without the defence').toBe(true)
    const names = ['NODE_OPTIONS', 'LD_PRELOAD', 'LD_LIBRARY_PATH', 'CRAIK_SOCKET', 'GLIBC_TUNABLES']
    for (const name of names) {
      const { code, stderr } = await home.tryToCreate(['--env', `${name}=${evil}`])
      expect(code, name).not.toBe(0)
      expect(stderr).toContain(`cannot set ${name}`)
    }
  })

  describe('in place', () => {
    let folder: string
    let box: LiveSandbox
    let before: string[]
    const files = Object.fromEntries(TRUSTED.map((name) => [name, 'of the host']))
    const git = { '.git/HEAD': 'ref: refs/heads/main\n', '.git/objects/x': '', '.git/refs/x': '' }

    beforeAll(async () => {
      const { home } = scene()
      folder = home.workspace('in-place', { ...files, ...git, 'file.txt': 'ours' })
      before = readdirSync(folder, { recursive: true }).map(String).sort()
      box = await home.create(['--in-place', '--workspace', folder])
    })

    it('no program in the sandbox changes, replaces or renames files that host programs trust', async () => {
      const free = scene().home.workspace('unguarded', files)
      for (const path of TRUSTED) {
        await expectToWork('everything', REPLACE, [join(free, path)])
        await expectToWork('everything', RENAME, [join(free, path)])
        for (const program of [WRITE, REPLACE, RENAME])
          expect(await tryIn(box, program, [`${SANDBOX_PROJECT}/${path}`]), `${path}: ${program}`).toMatch(
            REFUSED,
          )
        expect(readFileSync(join(folder, path), 'utf8')).toBe('of the host')
      }
      for (const path of ['.git', '.vscode', '.git/hooks'])
        expect(await tryIn(box, RENAME, [path]), path).toMatch(REFUSED)
    })

    it('no program in the sandbox creates missing files that host programs would trust', async () => {
      const free = scene().home.workspace('unguarded-too')
      for (const path of TRUSTED_LATER) {
        await expectToWork('everything', WRITE, [join(free, path)])
        expect(await tryIn(box, WRITE, [`${SANDBOX_PROJECT}/${path}`]), path).toMatch(REFUSED)
        expect(await tryIn(box, RENAME, [path.split('/')[0]!]), path).toMatch(REFUSED)
      }
    })

    it('a link that the sandbox creates leads to no host file when it is copied, copied onto or deleted', async () => {
      const { home, outside } = scene()
      writeFileSync(join(outside, 'secret'), EXPECTED_TEXT)
      expect((await box.exec(['ln', '-s', outside, 'leak'])).code).toBe(0)
      expect((await box.exec(['ln', '-s', join(outside, 'secret'), 'leaked-file'])).code).toBe(0)
      await expectToWork('everything', READ, [join(folder, 'leak/secret')])

      const target = home.workspace('copied')
      await home.run(['sandbox', 'cp', `${box.id}:leaked-file`, join(target, 'file')])
      await home.run(['sandbox', 'cp', `${box.id}:.`, join(target, 'all')])
      for (const entry of readdirSync(target, { recursive: true, withFileTypes: true })) {
        const path = join(entry.parentPath, entry.name)
        if (entry.isFile()) expect(readFileSync(path, 'utf8'), path).not.toContain(EXPECTED_TEXT)
        expect(entry.name).not.toBe('secret')
      }

      await box.exec([
        'sh',
        '-c',
        'mkdir new && echo from inside > new/planted && echo from inside > planted',
      ])
      await home.run(['sandbox', 'cp', `${box.id}:planted`, join(folder, 'leak')])
      await home.run(['sandbox', 'cp', `${box.id}:new/.`, join(folder, 'leak')])
      await home.run(['sandbox', 'cp', `${box.id}:planted`, join(folder, 'leaked-file')])
      expect(existsSync(join(outside, 'planted'))).toBe(false)
      expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe(EXPECTED_TEXT)
    })

    it('after the sandbox is deleted, the folder has its original files, and otherwise only the sandbox’s own', async () => {
      await box.delete()
      const after = readdirSync(folder, { recursive: true }).map(String)
      const made = ['leak', 'leaked-file', 'new', 'new/planted', 'planted']
      expect(after.filter((name) => !name.startsWith('leak/') && !made.includes(name)).sort()).toEqual(before)
      for (const path of TRUSTED_LATER) expect(existsSync(join(folder, path)), path).toBe(false)
      expect(lstatSync(join(scene().outside, 'secret')).isFile()).toBe(true)
    })
  })
}
