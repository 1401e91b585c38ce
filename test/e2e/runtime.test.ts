/** The runtime: an older Node reports which Node is needed, and the published package runs. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { NODE, ROOT, run, TestHome } from '../craik.ts'

const DIST = join(ROOT, 'dist')

describe('bin/craik.cjs', () => {
  const needed = (version: string) =>
    `craik: needs Node 24 or newer, but this is Node ${version}: install a newer one`

  it.each(['0.10.48', '18.19.1', '22.12.0', '23.11.1'])(
    'reports in one line that Node %s is too old',
    async (version) => {
      using home = new TestHome()
      const preload = home.path('older.cjs')
      writeFileSync(
        preload,
        `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })\n`,
      )
      const ran = await run(NODE, ['-r', preload, join(ROOT, 'bin/craik.cjs'), 'shell', 'touch ran'], {
        cwd: home.folder,
        env: { CRAIK_HOME: home.home },
      })
      expect([ran.code, ran.stdout]).toEqual([ERRORS.unavailable.exit, ''])
      expect(ran.stderr.startsWith(needed(version))).toBe(true)
      expect(ran.stderr.split('\n')).toHaveLength(2)
      expect([existsSync(home.path('ran')), existsSync(home.home)]).toEqual([false, false])
    },
  )

  // Also runs the host's own Node if it is older, because it must be able to parse the file.
  it.each(olderNodes())('reports it with %s, which is really Node %s', async (node, version) => {
    const ran = await run(node, [join(ROOT, 'bin/craik.cjs'), '--version'], { env: {} })
    expect([ran.code, ran.stdout]).toEqual([ERRORS.unavailable.exit, ''])
    expect(ran.stderr.startsWith(needed(version))).toBe(true)
  })

  it('runs the sources of a clone, from any folder and through a link', async () => {
    using home = new TestHome()
    const { version } = packageJson(ROOT)
    const env = { PATH: process.env.PATH!, CRAIK_HOME: home.home }
    const direct = await run(NODE, [join(ROOT, 'bin/craik.cjs'), '--version'], { cwd: home.folder, env })
    expect(direct).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    // npm links the programs that it installs in the same way.
    symlinkSync(join(ROOT, 'bin/craik.cjs'), home.path('craik'))
    const linked = await run(NODE, [home.path('craik'), '--version'], { cwd: home.folder, env })
    expect(linked).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })
})

describe('the published package', () => {
  beforeAll(() => {
    execFileSync(NODE, [join(ROOT, 'scripts/build.ts')], { cwd: ROOT })
  })
  afterAll(() => rmSync(DIST, { recursive: true, force: true }))

  it('describes itself and its requirements, and nothing about its build', () => {
    const source = packageJson(ROOT)
    const published = packageJson(DIST)
    for (const field of ['scripts', 'devDependencies', 'optionalDependencies', 'private'])
      expect(published).not.toHaveProperty(field)
    for (const field of ['name', 'version', 'license', 'type', 'engines', 'bin'])
      expect(published[field]).toEqual(source[field])
    expect(source.dependencies).toMatchObject(published.dependencies as object)
  })

  it('contains JavaScript, policies and its documents, but no TypeScript and no tests', () => {
    const files = readdirSync(DIST, { recursive: true, encoding: 'utf8' })
    expect(files).toEqual(
      expect.arrayContaining([
        'README.md',
        'LICENSE',
        'CHANGELOG.md',
        'bin/craik.cjs',
        'src/main.cjs',
        'src/writer.cjs',
      ]),
    )
    expect(files.filter((name) => /\.ts$|\.(test|fixture)\.|corpus/.test(name))).toEqual([])
    const profiles = readdirSync(join(ROOT, 'src/policy/profiles'))
    expect(files).toEqual(expect.arrayContaining(profiles.map((name) => `src/policy/profiles/${name}`)))
  })

  it('runs a command in a new home, and verifies the log', async () => {
    using home = new TestHome()
    const env = { PATH: process.env.PATH!, HOME: home.folder, CRAIK_HOME: home.home }
    const installed = installElsewhere(home.path('node_modules'))
    const craik = (...args: string[]) =>
      run(NODE, [join(installed, 'bin/craik.cjs'), ...args], { cwd: home.folder, env })
    expect(await craik('--version')).toMatchObject({ code: 0, stdout: `${packageJson(ROOT).version}\n` })
    const shell = await craik('shell', 'echo hi')
    expect(shell).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(shell.stdout)).toMatchObject({ exit_code: 0, stdout: { preview: 'hi\n' } })
    expect((await craik('shell', '--profile', 'automation', 'touch ran')).code).toBe(ERRORS.denied.exit)
    const verified = await craik('receipts', 'verify', '--replay')
    expect(verified).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(verified.stdout)).toMatchObject({ outcome: 'ok', receipts: 3, replay: { agree: 2 } })
    // A clone can read the log that the package wrote.
    expect((await home.run(['receipts', 'verify'])).code).toBe(0)
  })
})

/** Installs the package outside the repository, with only the dependencies that it declares. */
function installElsewhere(modules: string): string {
  cpSync(DIST, join(modules, 'craik'), { recursive: true })
  for (const name of Object.keys(packageJson(DIST).dependencies as object))
    cpSync(join(ROOT, 'node_modules', name), join(modules, name), { recursive: true })
  return join(modules, 'craik')
}

function packageJson(folder: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>
}

/** Returns each Node on the PATH that is too old, except those in `node_modules`. */
function olderNodes(): [string, string][] {
  return process.env
    .PATH!.split(delimiter)
    .filter((folder) => !folder.includes('node_modules'))
    .map((folder) => join(folder, 'node'))
    .filter((node) => existsSync(node))
    .map((node): [string, string] => [
      node,
      execFileSync(node, ['--version'], { encoding: 'utf8' }).trim().slice(1),
    ])
    .filter(([, version]) => Number(version.split('.')[0]) < 24)
}
