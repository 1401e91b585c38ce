import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { harnessesFolder } from '../../sandboxes/harness-package.ts'
import { FakeNpm } from './fake-npm.fixture.ts'
import { readHarness } from './harness-catalogue.ts'
import { isInstalled, isIntact } from './harness-manifest.ts'
import { ensureHarnesses, type InstallOptions } from './install-harness.ts'
import { listInstalled, pruneInstalled } from './list-installed.ts'

const kimi = readHarness('kimi')
const PROGRAM = 'node_modules/@moonshot-ai/kimi-code/dist/main.mjs'

let folder: string
let home: string
let npm: FakeNpm
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-harness-'))
  home = join(folder, 'home')
  mkdirSync(home, { mode: 0o700 })
  npm = new FakeNpm(join(folder, 'bin')).setKimiScript()
})
afterEach(() => rmSync(folder, { recursive: true }))

const owner = (craikHome = home) => ({ craikHome, environment: { XDG_CACHE_HOME: join(folder, 'cache') } })
const all = () => harnessesFolder(owner())
const install = (options: Partial<InstallOptions> = {}) =>
  ensureHarnesses(['kimi'], {
    craikHome: home,
    mounted: async () => [],
    ...options,
    environment: { ...(options.environment ?? npm.environment), ...owner().environment },
  })
const installFolder = async () => (await install())[0]!.folder
const calls = () => readFileSync(join(folder, 'bin/calls'), 'utf8').trim().split('\n')

describe('installing a harness', () => {
  it('requests exactly the locked packages from npm, without scripts, and keeps the needed files', async () => {
    const [made] = await install()
    expect(made).toEqual({
      name: 'kimi',
      version: kimi.version,
      id: kimi.id,
      made: true,
      folder: join(all(), kimi.id),
    })
    expect(calls()).toHaveLength(1)
    expect(calls()[0]).toMatch(/^ci --ignore-scripts --omit=dev .*--os=linux --cpu=/)
    const { folder: at } = made!
    expect(readFileSync(join(at, 'package-lock.json'))).toEqual(kimi.files['package-lock.json'])
    expect(existsSync(join(at, PROGRAM))).toBe(true)
    expect(existsSync(join(at, 'node_modules/@moonshot-ai/kimi-code/dist/main.d.ts'))).toBe(false)
    expect(existsSync(join(at, 'node_modules/.bin'))).toBe(false)
    expect(readdirSync(all()).sort()).toEqual([kimi.id, 'lock'])
  })

  it('lets every user read and run the files, and none write to them', async () => {
    const at = await installFolder()
    const modes = [at, join(at, 'bin/kimi'), join(at, PROGRAM)].map((path) => statSync(path).mode & 0o777)
    expect(modes.map((mode) => mode.toString(8))).toEqual(['755', '555', '444'])
  })

  it('does not install an existing harness again', async () => {
    await install()
    expect(await install()).toMatchObject([{ made: false }])
    expect(await install({ thorough: true })).toMatchObject([{ made: false }])
    expect(calls()).toHaveLength(1)
  })

  it('reports its progress from the beginning to the end', async () => {
    const parts: number[] = []
    await install({ progress: ({ part }) => parts.push(part) })
    expect(parts.length).toBeGreaterThan(2)
    expect(parts).toEqual([...parts].sort((a, b) => a - b))
    expect(parts.at(-1)).toBeLessThanOrEqual(1)
  })

  it('happens once when two callers request it at the same time', async () => {
    const both = await Promise.all([install(), install()])
    expect(both.flat().filter(({ made }) => made)).toHaveLength(1)
    expect(calls()).toHaveLength(1)
  })

  it('passes npm only the variables that it needs to reach the registry', async () => {
    await install({
      environment: {
        ...npm.environment,
        OPENAI_API_KEY: 'key',
        GITHUB_TOKEN: 'token',
        NODE_OPTIONS: '--inspect',
        'npm_config_//x/:_authToken': 'token',
        npm_config_registry: 'r',
        HTTPS_PROXY: 'p',
        NODE_EXTRA_CA_CERTS: '/ca',
      },
    })
    const provided = readFileSync(join(folder, 'bin/environment'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => line.split('=')[0])
    const shells = ['PWD', 'OLDPWD', 'SHLVL', '_']
    expect(provided.filter((name) => !shells.includes(name!)).sort()).toEqual(
      ['HOME', 'HTTPS_PROXY', 'NODE_EXTRA_CA_CERTS', 'PATH', 'npm_config_registry'].sort(),
    )
  })
})

describe('the manifest of an installed harness', () => {
  it.each([
    ['a program that is shorter', PROGRAM, 'x', false],
    ['a program with other bytes', PROGRAM, 'console.log("KIMI")\n', true],
    ['a file more', 'node_modules/new', '', true],
  ])(
    'no longer matches with %s, and Craik installs the harness again',
    async (_, path, content, atAGlance) => {
      const at = await installFolder()
      const file = join(at, path)
      rmSync(file, { force: true })
      writeFileSync(file, content)
      expect([await isInstalled(at, kimi), await isIntact(at, kimi)]).toEqual([atAGlance, false])
      expect(await install({ thorough: true })).toMatchObject([{ made: true }])
      expect(await isIntact(at, kimi)).toBe(true)
    },
  )

  it('does not match another recipe', async () => {
    const at = await installFolder()
    expect(await isIntact(at, { key: kimi.key })).toBe(true)
    expect(await isIntact(at, { key: '0'.repeat(64) })).toBe(false)
  })
})

describe('an installation that does not complete', () => {
  const nothingLeft = () => readdirSync(all()).filter((name) => name !== 'lock')

  it.each([
    ['no network', 'npm error code ENOTFOUND', 'unavailable', /registry is unreachable \(ENOTFOUND\)/],
    ['no space', 'npm error code ENOSPC', 'disk_full', /no space left/],
    ['a hash that differs', 'npm error code EINTEGRITY', 'unavailable', /npm failed \(EINTEGRITY\)/],
  ])('leaves no files and reports the cause: %s', async (_, output, code, message) => {
    npm.setKimiScript(`printf '%s\\nnpm error from https://me:pw@mirror.test/x\\n' '${output}' >&2; exit 1`)
    const error = await install().catch((caught) => caught)
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
    expect(JSON.stringify([error.message, error.hint, error.details])).not.toMatch(/mirror|pw/)
    expect(nothingLeft()).toEqual([])
  })

  it('leaves no files when it is interrupted', async () => {
    npm.setScript('echo started >"$HOME/started"; sleep 60')
    const stop = new AbortController()
    const failed = install({ signal: stop.signal }).catch((error: Error) => error.message)
    while (!existsSync(join(folder, 'bin/started'))) await new Promise((done) => setTimeout(done, 20))
    stop.abort(new Error('interrupted'))
    expect(await failed).toBe('interrupted')
    expect(nothingLeft()).toEqual([])
  })

  it('leaves no files when npm creates an unexpected link, or no program', async () => {
    npm.setKimiScript('ln -s /etc/passwd node_modules/passwd')
    await expect(install()).rejects.toMatchObject({ code: 'unavailable' })
    npm.setScript('mkdir node_modules')
    await expect(install()).rejects.toMatchObject({ code: 'home_unwritable' })
    expect(nothingLeft()).toEqual([])
  })

  it('reports which program to install when npm is missing', async () => {
    await expect(install({ environment: { PATH: join(folder, 'none') } })).rejects.toMatchObject({
      code: 'unavailable',
      hint: expect.stringContaining('npm'),
    })
  })

  it('by a process that was killed is removed by the next installation', async () => {
    mkdirSync(join(all(), 'work-killed/node_modules'), { recursive: true, mode: 0o700 })
    await install()
    expect(readdirSync(all()).sort()).toEqual([kimi.id, 'lock'])
  })
})

describe('installed harnesses', () => {
  const OLD = 'kimi-1.0.0-0123456789ab'
  const signal = new AbortController().signal

  it('are listed, and pruned when they belong to another build and no sandbox needs them', async () => {
    await install()
    mkdirSync(join(all(), OLD))
    mkdirSync(join(all(), 'something else'))
    const found = await listInstalled(owner())
    expect(found.map(({ id, isCurrent }) => [id, isCurrent])).toEqual([
      [OLD, false],
      [kimi.id, true],
    ])
    const stored = await pruneInstalled(owner(), new Set([OLD]), { signal })
    expect(stored.removed).toEqual([])
    const gone = await pruneInstalled(owner(), new Set(), { signal })
    expect(gone.removed.map(({ id }) => id)).toEqual([OLD])
    expect((await pruneInstalled(owner(), new Set([kimi.id]), { signal, all: true })).removed).toEqual([])
    expect((await pruneInstalled(owner(), new Set(), { signal, all: true })).removed).toHaveLength(1)
    expect(readdirSync(all()).sort()).toEqual(['lock', 'something else'])
  })

  it('are an empty list in a home without installations', async () => {
    expect(await listInstalled(owner(join(folder, 'none')))).toEqual([])
    expect(await pruneInstalled(owner(join(folder, 'none')), new Set(), { signal })).toEqual({
      removed: [],
      kept: [],
    })
  })
})

it('writes a wrapper that starts the program next to it with all arguments, wherever the folder is', async () => {
  const at = await installFolder()
  const elsewhere = join(folder, 'some where')
  spawnSync('cp', ['-r', at, elsewhere])
  const script = readFileSync(join(elsewhere, 'bin/kimi'), 'utf8')
  expect(script.split('\n')).toEqual(['#!/bin/sh', `exec /opt/craik/node "\${0%/*}/../${PROGRAM}" "$@"`, ''])
})
