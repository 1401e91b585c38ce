/** The host never runs programs that a process sandbox puts on the PATH of the user's shell. */
import { chmodSync, chownSync, existsSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentOf, ROOT, run, TestHome } from '../craik.ts'
import { SandboxHome } from '../sandbox-home.ts'
import { attackHostPrograms } from './host-programs.ts'

attackHostPrograms({ identity: 'user', backend: 'process' })

describe('the launcher in a clone of the repository', () => {
  const NAMES = [
    'apt-get',
    'basename',
    'cat',
    'dirname',
    'env',
    'fold',
    'id',
    'ls',
    'mkdir',
    'node',
    'npm',
    'printf',
    'readlink',
    'realpath',
    'rm',
    'sed',
    'sh',
    'sleep',
    'stat',
    'test',
    'touch',
    'uname',
  ]

  it.each([
    ['craik', ['--version'], '0.1.0'],
    ['bin/sandbox.sh', ['--help'], 'usage: sandbox.sh'],
  ])(
    '%s runs nothing from a virtualenv that is first on PATH, started directly or by a link',
    async (file, args, output) => {
      using home = new TestHome()
      const bin = home.path('project/.venv/bin')
      mkdirSync(bin, { recursive: true })
      writeFileSync(home.path('project/.venv/pyvenv.cfg'), '')
      for (const name of NAMES)
        writeFileSync(join(bin, name), `#!/bin/sh\necho ${name} >> "$HOME/ran"\n`, { mode: 0o755 })
      const link = home.path('link')
      symlinkSync(join(ROOT, file), link)
      const env = { ...environmentOf(home), PATH: `${bin}:${process.env.PATH}` }
      for (const launcher of [join(ROOT, file), link]) {
        const { code, stdout } = await run(launcher, args, { env, cwd: home.path('project') })
        expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining(output) })
      }
      expect(existsSync(home.path('ran'))).toBe(false)
    },
  )
})

describe('a supervisor', () => {
  let home: SandboxHome
  const put = (path: string, content: string) => {
    mkdirSync(dirname(home.path(path)), { recursive: true })
    writeFileSync(home.path(path), content, { mode: 0o755 })
    chownSync(home.path(path), home.uid, home.uid)
  }
  beforeAll(async () => {
    home = await SandboxHome.open({ identity: 'user', backend: 'process' })
    home.workspace('dotfiles', { 'bin/gh': '#!/bin/sh\necho asked >> "$HOME/asked"\nexit 1\n' })
    chmodSync(home.path('dotfiles/bin/gh'), 0o755)
    put('.config/gh/hosts.yml', 'github.com:\n  user: octocat\n')
    const later = new Date(Date.now() + 3_600_000)
    utimesSync(home.path('.config/gh/hosts.yml'), later, later)
  })
  afterAll(() => home?.[Symbol.asyncDispose]())
  const create = (folder: string, env: Record<string, string>) =>
    home.run(['sandbox', 'create', '--format', 'json', '--in-place', '--workspace', folder], { env })

  it('that started without gh on PATH gets its path from the next command', async () => {
    const without = { env: { PATH: '/nonexistent' } }
    const { id } = await home.json<{ id: string }>(['sandbox', 'create', '--format', 'json'], without)
    await home.json(['sandbox', 'logins', id], without)
    expect(existsSync(home.path('asked'))).toBe(false)
    await home.json(['sandbox', 'logins', id], { env: { PATH: home.path('dotfiles/bin') } })
    await home.json(['sandbox', 'logins', id], without)
    expect(existsSync(home.path('asked'))).toBe(true)
  })

  it('mounts no workspace that contains its gh, or a link to it', async () => {
    const env = { PATH: `${home.path('dotfiles/bin')}:${process.env.PATH}` }
    const refused = await create(home.path('dotfiles'), env)
    expect(refused.stderr).toContain('the workspace contains gh, which Craik runs on the host')
    const links = home.workspace('links')
    symlinkSync(home.path('dotfiles/bin/gh'), home.path('links/gh'))
    await home.json(['supervisor', 'stop'])
    const linked = { PATH: `${links}:${process.env.PATH}` }
    expect((await create(links, linked)).stderr).toContain('the workspace contains gh')
    // Programs in the sandbox cannot write to the original of a copy.
    expect((await home.run(['sandbox', 'create', '--workspace', links], { env: linked })).code).toBe(0)
  })

  it('trusts no certificate authorities that other users or a sandbox can change', async () => {
    await home.json(['supervisor', 'stop'])
    const project = home.workspace('project', { 'authority.pem': '' })
    const NODE_EXTRA_CA_CERTS = home.path('project/authority.pem')
    chmodSync(NODE_EXTRA_CA_CERTS, 0o666)
    const open = await create(project, { NODE_EXTRA_CA_CERTS })
    expect(open.stderr).toContain('NODE_EXTRA_CA_CERTS names')
    chmodSync(NODE_EXTRA_CA_CERTS, 0o644)
    const held = await create(project, { NODE_EXTRA_CA_CERTS })
    expect(held.stderr).toContain('the workspace contains the path in NODE_EXTRA_CA_CERTS')
    await home.json(['supervisor', 'stop'])
    expect((await create(project, {})).code).toBe(0)
    await home.json(['supervisor', 'stop'])
    const mounted = await home.run(['sandbox', 'list'], { env: { NODE_EXTRA_CA_CERTS } })
    expect(mounted.stderr).toContain('NODE_EXTRA_CA_CERTS names')
  })
})
