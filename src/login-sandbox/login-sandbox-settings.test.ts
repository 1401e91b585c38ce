import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loginFrom, loginOfSandbox, parseLoginName, sandboxNameOf, volumesOf } from './login-names.ts'
import { createProfile, parseProfile, profileNames, readProfile } from './login-profile.ts'
import { loadSettings } from './login-sandbox-settings.ts'
import { refuseHostVariables } from './refuse-host-variables.ts'

let home: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'craik-login-'))
})
afterEach(() => rmSync(home, { recursive: true }))

const folder = () => join(home, '.config/sandbox/profiles')
function write(name: string, text: string, mode = 0o600): string {
  mkdirSync(folder(), { recursive: true })
  const path = join(folder(), `${name}.env`)
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}
const load = (typed = {}, more: Record<string, string> = {}) =>
  loadSettings(typed, { HOME: home, ...more }, '/srv/parser')

describe('a profile', () => {
  it('is read as data: values, quotes, comments, and a home folder at the start of a path', () => {
    const text = [
      '# work',
      'export SANDBOX_LOGIN=octo',
      "SANDBOX_REFUSE_PATTERNS='^(ACME|CORP)_'  # of the employer",
      'SANDBOX_WORKSPACE=~/code # here',
      'SANDBOX_INBOX_DIR="$HOME/my inbox"',
      'SOMETHING_ELSE=$(touch /tmp/never)',
      'GIT_AUTHOR_NAME="Octo $(id) Cat"',
    ].join('\r\n')
    expect(parseProfile(text, 'p', '/home/octo')).toEqual({
      SANDBOX_LOGIN: 'octo',
      SANDBOX_REFUSE_PATTERNS: '^(ACME|CORP)_',
      SANDBOX_WORKSPACE: '/home/octo/code',
      SANDBOX_INBOX_DIR: '/home/octo/my inbox',
      GIT_AUTHOR_NAME: 'Octo $(id) Cat',
    })
  })

  it.each(['SANDBOX_LOGIN', 'SANDBOX LOGIN=x', 'SANDBOX_LOGIN="a', 'SANDBOX_LOGIN=a"b"', 'if true'])(
    'is refused with the number of a line that is not an assignment: %j',
    (line) => {
      expect(() => parseProfile(`\n${line}`, 'work.env', home)).toThrow(/work\.env: line 2/)
    },
  )

  it('causes no other error, whatever it contains', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 400 }), (text) => {
        try {
          parseProfile(text, 'p', '/h')
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid_config' })
        }
      }),
    )
  })

  it('that does not exist causes exit code 78 and a hint with the commands that list and create profiles', () => {
    expect(() => load({ profile: 'work' })).toThrow(
      expect.objectContaining({
        code: 'no_profile',
        exitCode: 78,
        hint: expect.stringMatching(/profile-list.*profile-new work/),
      }),
    )
    expect(() => load({ profile: '../x' })).toThrow(expect.objectContaining({ code: 'usage' }))
  })

  it('is refused when other users can write it, or when it is a link', () => {
    const path = write('open', 'SANDBOX_LOGIN=octo\n', 0o666)
    expect(() => load({ profile: 'open' })).toThrow(/can be written by others/)
    symlinkSync(path, join(folder(), 'linked.env'))
    expect(() => load({ profile: 'linked' })).toThrow(/is not a regular file/)
  })

  it('is created once, listed, and read again as it was written', () => {
    const values = { SANDBOX_LOGIN: 'octo', SANDBOX_WORKSPACE: '/srv/my code' }
    createProfile({ HOME: home }, 'work', values)
    expect(profileNames({ HOME: home })).toEqual(['work'])
    expect(readProfile({ HOME: home }, 'work').values).toEqual(values)
    expect(() => createProfile({ HOME: home }, 'work', {})).toThrow(
      expect.objectContaining({ code: 'conflict' }),
    )
  })
})

describe('settings', () => {
  it('default to the current folder, the inbox in the home folder, and brokered logins', () => {
    expect(load()).toMatchObject({
      profile: undefined,
      login: undefined,
      expectedLogin: undefined,
      backend: undefined,
      workspace: '/srv/parser',
      inbox: join(home, 'inbox'),
      credentials: 'broker',
      egressPresets: [],
      refusePattern: undefined,
    })
  })

  it('of a chosen profile override the environment, and command-line options override both', () => {
    write('work', 'SANDBOX_LOGIN=Octo_Acme\nSANDBOX_WORKSPACE=/srv/work\nSANDBOX_EGRESS=npm,pypi npm\n')
    const environment = { SANDBOX_PROFILE: 'work', SANDBOX_LOGIN: 'ada', SANDBOX_WORKSPACE: '/srv/ada' }
    expect(load({}, environment)).toMatchObject({
      profile: 'work',
      login: 'octo-acme',
      expectedLogin: 'octo_acme',
      workspace: '/srv/work',
      egressPresets: ['npm', 'pypi'],
    })
    expect(load({ workspace: 'x' }, environment).workspace).toBe('/srv/parser/x')
  })

  it('expect no particular GitHub login unless a profile or a variable names one', () => {
    expect(load({}, { SANDBOX_LOGIN: 'octo' })).toMatchObject({ login: 'octo', expectedLogin: undefined })
    expect(load({}, { SANDBOX_LOGIN_EXPECTED: 'Octo' }).expectedLogin).toBe('octo')
  })

  it.each([
    [{ SANDBOX_BACKEND: 'vm' }, 'usage'],
    [{ SANDBOX_CREDENTIALS: 'all' }, 'usage'],
    [{ SANDBOX_LOGIN: '../x' }, 'usage'],
    [{ SANDBOX_REFUSE_PATTERNS: '(' }, 'invalid_config'],
    [{ SANDBOX_REFUSE_PATTERNS: 'a'.repeat(5000) }, 'too_large'],
    [{ GIT_AUTHOR_NAME: 'a\nb' }, 'usage'],
  ])('that are invalid are refused: %j', (environment, code) => {
    expect(() => load({}, environment)).toThrow(expect.objectContaining({ code }))
  })
})

describe('host variables', () => {
  it.each(['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN'])(
    '%s refuses the start with exit code 64, and its value is never printed',
    (name) => {
      const value = 'ghp_never-told'
      let thrown: unknown
      try {
        refuseHostVariables({ HOME: home, [name]: value }, undefined, 'craik up')
      } catch (error) {
        thrown = error
      }
      expect(thrown).toMatchObject({
        code: 'refused_variable',
        exitCode: 64,
        message: expect.stringContaining(name),
      })
      expect(JSON.stringify(thrown, Object.getOwnPropertyNames(thrown))).not.toContain(value)
    },
  )

  it('that match the user’s pattern are all named', () => {
    const environment = { ACME_URL: 'x', CORP_ID: 'y', OTHER: 'ACME_' }
    expect(() => refuseHostVariables(environment, /^(ACME|CORP)_/, 'craik up')).toThrow('ACME_URL, CORP_ID')
    expect(() => refuseHostVariables({ OTHER: 'ACME_' }, /^ACME_/, 'craik up')).not.toThrow()
  })
})

describe('login names', () => {
  it('determine the names of the sandbox and volumes, and can be read from the sandbox’s name', () => {
    expect(sandboxNameOf('octo')).toBe('octo-sandbox')
    expect(loginOfSandbox('octo-sandbox')).toBe('octo')
    expect(loginOfSandbox('parser')).toBeUndefined()
    expect(volumesOf('octo').map(({ name }) => name)).toEqual(['octo-llm', 'octo-toolchains', 'octo-gh'])
  })

  it('can be derived from any user name', () => {
    fc.assert(
      fc.property(fc.string(), (name) => {
        const login = loginFrom(name)
        expect(parseLoginName(login, 'it')).toBe(login)
      }),
    )
  })
})
