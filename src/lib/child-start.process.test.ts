import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { collectOutput } from './child.fixture.ts'
import { cleanEnvironment, type RunOptions } from './child.ts'

let folder: string
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'craik-child-')))
})
afterEach(() => {
  rmSync(folder, { recursive: true })
})

const run = (argv: readonly string[], options: Partial<RunOptions> = {}) =>
  collectOutput(folder, argv, options)
const _sh = (script: string, options: Partial<RunOptions> = {}) => run(['sh', '-c', script], options)

describe('runChild, when it cannot start', () => {
  const refusal = (reason: string, message: string) => ({
    end: 'not_started',
    reason,
    message: expect.stringContaining(message),
  })

  it.each(['no-such-program-anywhere', './no-such-file', '/dev/null/x'])(
    'reports that %s is missing',
    async (name) => {
      expect(await run([name])).toMatchObject(refusal('missing', `program "${name}" not found`))
    },
  )

  it('reports that there is no program', async () => {
    expect(await run([])).toMatchObject(refusal('missing', 'no program to run'))
    expect(await run([''])).toMatchObject(refusal('missing', 'no program to run'))
  })

  it('searches for the program in the given PATH, not in that of this process', async () => {
    expect(await run(['true'], { env: { PATH: folder } })).toMatchObject(refusal('missing', '"true"'))
  })

  it('reports that a file or folder is not executable', async () => {
    writeFileSync(join(folder, 'plain'), '#!/bin/sh\n', { mode: 0o644 })
    mkdirSync(join(folder, 'sub'))
    expect(await run(['./plain'])).toMatchObject(refusal('not_executable', '"./plain" is not executable'))
    expect(await run(['./sub'])).toMatchObject(refusal('not_executable', '"./sub" is not executable'))
  })

  it('reports that a script’s interpreter is missing', async () => {
    writeFileSync(join(folder, 'script'), '#!/no/such/interpreter\n')
    chmodSync(join(folder, 'script'), 0o755)
    expect(await run(['./script'])).toMatchObject(refusal('not_executable', 'interpreter'))
  })

  it('distinguishes a bad folder from a missing program', async () => {
    writeFileSync(join(folder, 'file'), '')
    const none = { cwd: join(folder, 'none') }
    expect(await run(['true'], none)).toMatchObject(refusal('bad_cwd', 'does not exist'))
    expect(await run(['no-such-program'], none)).toMatchObject(refusal('bad_cwd', 'does not exist'))
    expect(await run(['true'], { cwd: join(folder, 'file') })).toMatchObject(
      refusal('bad_cwd', 'is not a folder'),
    )
  })

  it('refuses NUL bytes, and does not repeat the text around them', async () => {
    for (const options of [
      {},
      { cwd: 'secret\0' },
      { env: { A: 'secret\0' } },
      { env: { 'secret\0': '' } },
    ]) {
      const result = await run(Object.keys(options).length === 0 ? ['echo', 'secret\0'] : ['true'], options)
      expect(result).toMatchObject(refusal('other', 'NUL byte'))
      expect(JSON.stringify(result)).not.toContain('secret')
    }
  })

  it('reports that the arguments are too long', async () => {
    expect(await run(['true', 'x'.repeat(4_000_000)])).toMatchObject(
      refusal('other', 'longer than this system'),
    )
  })
})

describe('cleanEnvironment', () => {
  it('passes on what a command needs and nothing that could be a secret', () => {
    const passed = {
      PATH: '/bin',
      HOME: '/h',
      USER: 'u',
      LOGNAME: 'u',
      SHELL: '/bin/sh',
      LANG: 'C',
      LC_ALL: 'C',
      LC_TIME: 'C',
      TZ: 'UTC',
      TERM: 'xterm',
      TMPDIR: '/tmp',
      COLORTERM: 'truecolor',
      NO_COLOR: '1',
    }
    const withheld = {
      GITHUB_TOKEN: 'x',
      AWS_SECRET_ACCESS_KEY: 'x',
      NODE_OPTIONS: 'x',
      LD_PRELOAD: 'x',
      BASH_ENV: 'x',
      SSH_AUTH_SOCK: 'x',
      CRAIK_HOME: 'x',
      HTTP_PROXY: 'x',
      path: 'x',
      PATH2: 'x',
      XLC_ALL: 'x',
      TERMINAL: 'x',
    }
    expect(cleanEnvironment({ ...withheld, ...passed, MISSING: undefined })).toEqual(passed)
  })

  it('passes no token of this process to a program', async () => {
    const ours = { ...process.env, CRAIK_TEST_TOKEN: 'hunter2' }
    expect(
      (await run(['env'], { env: { ...process.env, CRAIK_TEST_TOKEN: 'hunter2' } as never })).stdout,
    ).toContain('hunter2')
    expect((await run(['env'], { env: cleanEnvironment(ours) })).stdout).not.toContain('hunter2')
  })
})
