import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadSettings } from './login-sandbox-settings.ts'
import { craikAgain, craikFor } from './next-commands.ts'
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

describe('a command that is told to be typed next', () => {
  it.each([
    [{}, {}, 'craik nuke --yes'],
    [{ login: 'proc' }, {}, 'craik nuke --login proc --yes'],
    [{ login: 'Proc' }, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --login proc --yes'],
    [{}, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --login ada --yes'],
    [{ profile: 'work' }, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --profile work --yes'],
    [{}, { SANDBOX_PROFILE: 'work' }, 'craik nuke --profile work --yes'],
    [{ profile: 'bare' }, { SANDBOX_LOGIN: 'ada' }, 'craik nuke --profile bare --login ada --yes'],
    [{ profile: 'work', login: 'ada' }, {}, 'craik nuke --profile work --login ada --yes'],
  ])('is about the sandbox that %j with %j is about', (typed, environment, message) => {
    const settings = load(typed, environment)
    expect(craikFor('nuke', settings, '--yes')).toBe(message)
    // Typed as told, in a shell that has nothing of it any more, it chooses the same.
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

  it('has everything that was typed of what the sandbox is to be, as a shell reads it', () => {
    const typed = { profile: 'work', workspace: '/srv/my work', apt: 'jq', inbox: '/srv/in' }
    expect(craikAgain('rebuild', load(typed), typed, {}, '--yes')).toBe(
      "craik rebuild --profile work --workspace '/srv/my work' --apt jq --inbox /srv/in --yes",
    )
    expect(craikAgain('up', load(typed), typed, { inbox: 'FOLDER' })).toBe(
      "craik up --profile work --workspace '/srv/my work' --apt jq --inbox FOLDER",
    )
  })

  it('without a refused variable is the one that was typed', () => {
    const settings = load({ profile: 'work' })
    const command = craikAgain('up', settings, { profile: 'work' })
    expect(() => refuseHostVariables({ ACME_URL: 'x' }, /^ACME_/, command)).toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/env -u ACME_URL craik up --profile work$/) }),
    )
  })
})
