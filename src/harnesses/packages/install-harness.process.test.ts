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
import { isThere, isWhole } from './harness-manifest.ts'
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
  npm = new FakeNpm(join(folder, 'bin')).installsKimi()
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
  it('asks npm for exactly what the lock names, without scripts, and keeps what is needed', async () => {
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

  it('can be read and run by every user, and is written by none', async () => {
    const at = await installFolder()
    const modes = [at, join(at, 'bin/kimi'), join(at, PROGRAM)].map((path) => statSync(path).mode & 0o777)
    expect(modes.map((mode) => mode.toString(8))).toEqual(['755', '555', '444'])
  })

  it('does not ask again for what is there', async () => {
    await install()
    expect(await install()).toMatchObject([{ made: false }])
    expect(await install({ thorough: true })).toMatchObject([{ made: false }])
    expect(calls()).toHaveLength(1)
  })

  it('tells how far it is, from the beginning to the end', async () => {
    const parts: number[] = []
    await install({ progress: ({ part }) => parts.push(part) })
    expect(parts.length).toBeGreaterThan(2)
    expect(parts).toEqual([...parts].sort((a, b) => a - b))
    expect(parts.at(-1)).toBeLessThanOrEqual(1)
  })

  it('is done once when two ask at the same time', async () => {
    const both = await Promise.all([install(), install()])
    expect(both.flat().filter(({ made }) => made)).toHaveLength(1)
    expect(calls()).toHaveLength(1)
  })

  it('gives npm nothing of the environment but what leads to the registry', async () => {
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

describe('what an installed harness says of itself', () => {
  it.each([
    ['a program that is shorter', PROGRAM, 'x', false],
    ['a program with other bytes', PROGRAM, 'console.log("KIMI")\n', true],
    ['a file more', 'node_modules/new', '', true],
  ])('is not true any more with %s, and it is made anew', async (_, path, content, atAGlance) => {
    const at = await installFolder()
    const file = join(at, path)
    rmSync(file, { force: true })
    writeFileSync(file, content)
    expect([await isThere(at, kimi), await isWhole(at, kimi)]).toEqual([atAGlance, false])
    expect(await install({ thorough: true })).toMatchObject([{ made: true }])
    expect(await isWhole(at, kimi)).toBe(true)
  })

  it('does not hold for another recipe', async () => {
    const at = await installFolder()
    expect(await isWhole(at, { key: kimi.key })).toBe(true)
    expect(await isWhole(at, { key: '0'.repeat(64) })).toBe(false)
  })
})

describe('an installation that does not get to its end', () => {
  const nothingLeft = () => readdirSync(all()).filter((name) => name !== 'lock')

  it.each([
    ['no network', 'npm error code ENOTFOUND', 'unavailable', /registry is unreachable \(ENOTFOUND\)/],
    ['no space', 'npm error code ENOSPC', 'disk_full', /no space left/],
    ['a hash that differs', 'npm error code EINTEGRITY', 'unavailable', /npm failed \(EINTEGRITY\)/],
  ])('leaves nothing and says why: %s', async (_, output, code, message) => {
    npm.installsKimi(`printf '%s\\nnpm error from https://me:pw@mirror.test/x\\n' '${output}' >&2; exit 1`)
    const error = await install().catch((caught) => caught)
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
    expect(JSON.stringify([error.message, error.hint, error.details])).not.toMatch(/mirror|pw/)
    expect(nothingLeft()).toEqual([])
  })

  it('leaves nothing when it is interrupted', async () => {
    npm.does('echo started >"$HOME/started"; sleep 60')
    const stop = new AbortController()
    const failed = install({ signal: stop.signal }).catch((error: Error) => error.message)
    while (!existsSync(join(folder, 'bin/started'))) await new Promise((done) => setTimeout(done, 20))
    stop.abort(new Error('interrupted'))
    expect(await failed).toBe('interrupted')
    expect(nothingLeft()).toEqual([])
  })

  it('leaves nothing when npm brings a link that nobody expects, or no program', async () => {
    npm.installsKimi('ln -s /etc/passwd node_modules/passwd')
    await expect(install()).rejects.toMatchObject({ code: 'unavailable' })
    npm.does('mkdir node_modules')
    await expect(install()).rejects.toMatchObject({ code: 'home_unwritable' })
    expect(nothingLeft()).toEqual([])
  })

  it('says what to install when there is no npm', async () => {
    await expect(install({ environment: { PATH: join(folder, 'none') } })).rejects.toMatchObject({
      code: 'unavailable',
      hint: expect.stringContaining('npm'),
    })
  })

  it('by a process that was killed is cleared away by the next', async () => {
    mkdirSync(join(all(), 'work-killed/node_modules'), { recursive: true, mode: 0o700 })
    await install()
    expect(readdirSync(all()).sort()).toEqual([kimi.id, 'lock'])
  })
})

describe('what is installed', () => {
  const OLD = 'kimi-1.0.0-0123456789ab'
  const signal = new AbortController().signal

  it('is listed, and pruned when it is of another build and no sandbox needs it', async () => {
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

  it('is nothing in a home where nothing was', async () => {
    expect(await listInstalled(owner(join(folder, 'none')))).toEqual([])
    expect(await pruneInstalled(owner(join(folder, 'none')), new Set(), { signal })).toEqual({
      removed: [],
      kept: [],
    })
  })
})

it('a wrapper becomes the program beside it, with all of its arguments, wherever the folder is put', async () => {
  const at = await installFolder()
  const elsewhere = join(folder, 'some where')
  spawnSync('cp', ['-r', at, elsewhere])
  const script = readFileSync(join(elsewhere, 'bin/kimi'), 'utf8')
  expect(script.split('\n')).toEqual(['#!/bin/sh', `exec /opt/craik/node "\${0%/*}/../${PROGRAM}" "$@"`, ''])
})
