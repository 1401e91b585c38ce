import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadSettings } from './login-sandbox-settings.ts'
import { formatCommand, formatRepeatCommand } from './next-commands.ts'
import { refuseHostVariables } from './refuse-host-variables.ts'

let home: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'craik-again-'))
  mkdirSync(join(home, '.config/sandbox/profiles'), { recursive: true })
  for (const [name, text] of [
    ['work', 'SANDBOX_LOGIN=octo-acme\n'],
    ['bare', 'SANDBOX_EGRESS=npm\n'],
  ] as const)
    writeFileSync(join(home, '.config/sandbox/profiles', `${name}.env`), text, { mode: 0o600 })
})
afterEach(() => rmSync(home, { recursive: true }))

const load = (typed = {}, more: Record<string, string> = {}) =>
  loadSettings(typed, { HOME: home, ...more }, '/srv/parser')

describe('a command that Craik suggests', () => {
  it.each([
    [{}, {}, 'craik nuke --yes'],
    [{ login: 'proc' }, {}, 'craik nuke --login proc --yes'],
    [{ login: 'Proc' }, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --login proc --yes'],
    [{}, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --login ada --yes'],
    [{ profile: 'work' }, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --profile work --yes'],
    [{}, { SANDBOX_PROFILE: 'work' }, 'craik nuke --profile work --yes'],
    [{ profile: 'bare' }, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --profile bare --login ada --yes'],
    [{ profile: 'work', login: 'ada' }, {}, 'craik nuke --profile work --login ada --yes'],
  ])('selects the same sandbox as %j with %j', (typed, environment, message) => {
    const settings = load(typed, environment)
    expect(formatCommand('nuke', settings, '--yes')).toBe(message)
    // The command selects the same sandbox in a shell that has none of these variables.
    const [, , ...words] = message.replace(' --yes', '').split(' ')
    const again = {
      profile: words[words.indexOf('--profile') + 1],
      login: words[words.indexOf('--login') + 1],
    }
    const typedAgain = {
      ...(words.includes('--profile') && { profile: again.profile }),
      ...(words.includes('--login') && { login: again.login }),
    }
    expect(load(typedAgain)).toMatchObject({ profile: settings.profile, login: settings.login })
  })

  it('contains every typed option for the sandbox, quoted for a shell', () => {
    const typed = { profile: 'work', workspace: '/srv/my work', apt: 'jq', inbox: '/srv/in' }
    expect(formatRepeatCommand('rebuild', load(typed), typed, {}, '--yes')).toBe(
      "craik rebuild --profile work --workspace '/srv/my work' --apt jq --inbox /srv/in --yes",
    )
    expect(formatRepeatCommand('up', load(typed), typed, { inbox: 'FOLDER' })).toBe(
      "craik up --profile work --workspace '/srv/my work' --apt jq --inbox FOLDER",
    )
  })

  it('for a start without a refused variable is the command that the user typed', () => {
    const settings = load({ profile: 'work' })
    const command = formatRepeatCommand('up', settings, { profile: 'work' })
    expect(() => refuseHostVariables({ ACME_URL: 'x' }, /^ACME_/, command)).toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/env -u ACME_URL craik up --profile work$/) }),
    )
  })
})
