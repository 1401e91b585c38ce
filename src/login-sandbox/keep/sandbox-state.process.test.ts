/** Tests the state that a sandbox reports, with a real shell and with hostile output. */
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseState, type SavedState, STATE_LIMITS, sandboxState } from './sandbox-state.ts'
import { stateScript } from './state-script.ts'

const AT_MS = Date.UTC(2026, 10, 15, 9, 12, 44)
const USER = process.geteuid?.() === 0 ? { uid: 12345, gid: 12345 } : {}
const toRecords = (...records: string[]) => Buffer.from(records.map((record) => `${record}\0`).join(''))
const parseRecords = (...records: string[]) => parseState(toRecords(...records, '#end'), AT_MS)

describe('the state script', () => {
  let home: string
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'craik-state-'))
    if (USER.uid !== undefined) chownSync(home, USER.uid, USER.gid)
    chmodSync(home, 0o755)
  })
  afterEach(() => rmSync(home, { recursive: true }))
  const write = (path: string, content: string) => {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), content)
  }
  const look = (env: Record<string, string> = {}): SavedState => {
    const { stdout, stderr, status } = spawnSync('/bin/sh', ['-s'], {
      input: stateScript(),
      cwd: '/',
      ...USER,
      maxBuffer: STATE_LIMITS.outputBytes,
      env: { PATH: process.env.PATH, HOME: home, ...env },
    })
    expect([status, stderr.toString()]).toEqual([0, ''])
    return parseState(stdout, AT_MS)
  }

  it('reports packages of Debian, npm and pip, programs, and variables that a profile sets', () => {
    const pretty = { name: 'left-pad', engines: { node: '>=1' }, version: '1.3.0' }
    write('.local/lib/node_modules/left-pad/package.json', JSON.stringify(pretty, undefined, 2))
    write('.local/lib/node_modules/@octo/tool/package.json', '{"name":"@octo/tool","version":"2.0.0-rc.1"}')
    write('.local/lib/node_modules/odd/package.json', 'no json')
    write('.local/lib/python3.11/site-packages/some_pkg-1.0.dist-info/METADATA', '')
    write('bin/hello world', '')
    write('.local/bin/left-pad', '')
    write('.profile', 'echo noise; export FROM_PROFILE="a  b"\n')
    const state = look({ FROM_JOB: 'two\nlines' })
    expect(state).toMatchObject({
      takenAt: '2026-11-15T09:12:44.000Z',
      npm: { 'left-pad': '1.3.0', '@octo/tool': '2.0.0-rc.1', odd: '' },
      pip: { some_pkg: '1.0' },
      programs: { 'bin/hello world': '', '.local/bin/left-pad': '' },
      environment: { FROM_JOB: 'two⏎lines', FROM_PROFILE: 'a  b' },
    })
    expect(Object.keys(state.environment)).not.toContain('PWD')
    if (existsSync('/usr/bin/dpkg-query')) expect(state.debian.dpkg).toMatch(/^\d/)
  })

  it('reports the environment even when the profile exits the shell', () => {
    write('.profile', 'exit 3\n')
    expect(look({ A_NAME: 'a value' }).environment.A_NAME).toBe('a value')
  })

  it('reports no packages and programs in an empty home', () => {
    expect(look()).toMatchObject({ npm: {}, pip: {}, programs: {} })
  })
})

describe('a value that looks like a key', () => {
  it.each([
    ['AKIA', 'AKIAIOSFODNN7EXAMPLQ'],
    ['AIza', `AIza${'Sy0123456789abcdefghijklmnopqrstuvw'}`],
    ['sk-', 'sk-ant-REDACTED'],
    ['ghp_', 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'],
    ['github_pat_', 'github_pat_11ABCDEFG0123456789abcdefghijklmnopqrstuv'],
  ])('is removed by its prefix: %s', (_, key) => {
    const state = parseRecords('#environment', `PLAIN=${key}`, `LATER=x ${key} y`, '#npm', `a=${key}`)
    expect(JSON.stringify(state)).not.toContain(key)
    expect(JSON.stringify(state)).not.toContain(key.slice(0, 16))
    expect(Object.keys(state.environment)).toEqual(['LATER', 'PLAIN'])
  })

  it('is removed by its variable’s name, with several lines, and at the point where a value is truncated', () => {
    const block = '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----'
    const key = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
    const long = `${'a '.repeat(STATE_LIMITS.valueChars / 2 - 5)}${key} ${'b '.repeat(9000)}`
    const text = JSON.stringify(
      parseRecords('#environment', 'DB_PASSWORD=hunter2hunter2', `BLOCK=${block}`, `LONG=${long}`),
    )
    for (const secret of ['hunter2', 'MIIEvQIB', 'ghp_0']) expect(text).not.toContain(secret)
  })
})

describe('hostile output', () => {
  it('is refused when it is incomplete or too long', () => {
    expect(() => parseState(toRecords('#npm', 'a=1'), AT_MS)).toThrow('is incomplete')
    expect(() => parseState(Buffer.alloc(0), AT_MS)).toThrow('is incomplete')
    expect(() => parseState(Buffer.alloc(STATE_LIMITS.outputBytes + 1), AT_MS)).toThrow('longer')
  })

  it('cannot hide an entry by its name: unprintable characters are escaped, and long names are cut', () => {
    const long = `.local/bin/${'x'.repeat(255)}`
    const names = [
      '.local/bin/a\x1b[2Jb',
      '.local/bin/a\x1b[1Jb',
      'bin/a\nb',
      'bin/\u202ea',
      long,
      `${long}y`,
    ]
    const { programs } = parseRecords('#programs', ...names.map((name) => `${name}=`))
    expect(Object.keys(programs)).toHaveLength(names.length)
    expect(Object.keys(programs)).toContainEqual(
      expect.stringMatching(/^\.local\/bin\/a\\u\{1b\}\[2Jb \(sha256 [0-9a-f]{12}\)$/),
    )
  })

  it('cannot hide later entries behind a package with the name of a part', () => {
    expect(parseRecords('#npm', '#x=1', '#end=1', 'evil=1').npm).toEqual({
      '#x': '1',
      '#end': '1',
      evil: '1',
    })
  })

  it('keeps the versions of packages whose names look like secrets', () => {
    expect(parseRecords('#debian', 'base-passwd=3.6.1', '#pip', 'token=1.0')).toMatchObject({
      debian: { 'base-passwd': '3.6.1' },
      pip: { token: '1.0' },
    })
  })

  it('keeps no key in a name', () => {
    const key = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
    expect(JSON.stringify(parseRecords('#programs', `bin/${key}=`, '#npm', `${key}=1`))).not.toContain(
      key.slice(0, 12),
    )
  })

  it('loses invalid names and entries over the limit, and the latter are counted', () => {
    const many = Array.from({ length: STATE_LIMITS.entries + 50 }, (_, i) => `p${i}=1`)
    const state = parseRecords('#npm', '=x', 'none', '__proto__=x', '#odd', 'y=1', '#pip', ...many)
    expect(state.npm).toEqual({})
    expect(Object.keys(state.pip)).toHaveLength(STATE_LIMITS.entries)
    expect(state.pip['(more than are listed)']).toBe('51')
  })

  it('always gives a valid state', () => {
    const record = fc.oneof(
      fc.constantFrom('#debian', '#npm', '#pip', '#programs', '#environment', '#end', '__proto__=1', '1=2'),
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.tuple(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' })).map((pair) => pair.join('=')),
    )
    fc.assert(
      fc.property(fc.array(record, { maxLength: 30 }), (records) => {
        const state = parseRecords(...records)
        expect(sandboxState.parse(JSON.parse(JSON.stringify(state)))).toEqual(state)
        expect(JSON.stringify(state)).not.toMatch(/\\u00[01]/)
      }),
    )
  })
})
