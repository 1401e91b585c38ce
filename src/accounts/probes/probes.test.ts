import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { fakeJwt, findWithProbe, machine, problemsOf } from '../accounts.fixture.ts'
import { claudeCodeFormat } from '../logins/claude-code.ts'
import { codexFormat } from '../logins/codex.ts'
import { parseLoginFile } from '../logins/format.ts'
import { geminiFormat } from '../logins/gemini.ts'
import { kimiFormat } from '../logins/kimi.ts'
import type { Probe } from '../probe-result.ts'
import { VaultProblem } from '../vaults/vault.ts'
import { claudeCodeProbe } from './claude-code.ts'
import { codexProbe } from './codex.ts'
import { geminiProbe } from './gemini.ts'
import { kimiProbe } from './kimi.ts'
import { opencodeProbe } from './opencode.ts'

const SOON = 1_900_000_000_000

const CLAUDE = JSON.stringify({
  claudeAiOauth: {
    accessToken: 'made-up-access',
    refreshToken: 'made-up-refresh',
    expiresAt: SOON,
    scopes: ['user:inference'],
    subscriptionType: 'max',
  },
  mcpOAuth: { something: 'else' },
})
const CODEX = JSON.stringify({
  OPENAI_API_KEY: null,
  tokens: {
    id_token: fakeJwt({
      email: 'ada@example.test',
      'https://api.openai.com/auth': { chatgpt_plan_type: 'pro', chatgpt_account_id: 'acct-from-claims' },
    }),
    access_token: fakeJwt({ exp: SOON / 1000 }),
    refresh_token: 'made-up-refresh',
    account_id: 'acct-1',
  },
})
const GEMINI = JSON.stringify({
  access_token: 'made-up-access',
  refresh_token: 'made-up-refresh',
  expiry_date: SOON + 0.5,
  id_token: fakeJwt({ email: 'ada@example.test' }),
})
const KIMI = JSON.stringify({ access_token: 'made-up-access', refresh_token: 'r', expires_at: SOON / 1000 })

interface Case {
  readonly probe: Probe
  readonly file: string
  readonly content: string
  readonly moved: readonly [variable: string, folder: string, file: string]
  readonly expected: Record<string, unknown>
}

const CASES: Record<string, Case> = {
  'claude-code': {
    probe: claudeCodeProbe,
    file: '.claude/.credentials.json',
    content: CLAUDE,
    moved: ['CLAUDE_CONFIG_DIR', 'elsewhere', '.credentials.json'],
    expected: {
      family: 'anthropic',
      baseUrl: 'https://api.anthropic.com/v1',
      plan: 'max',
      expiresAtMs: SOON,
    },
  },
  codex: {
    probe: codexProbe,
    file: '.codex/auth.json',
    content: CODEX,
    moved: ['CODEX_HOME', 'elsewhere', 'auth.json'],
    expected: {
      family: 'openai',
      baseUrl: 'https://chatgpt.com/backend-api/codex',
      plan: 'pro',
      expiresAtMs: SOON,
      who: 'ada@example.test',
    },
  },
  gemini: {
    probe: geminiProbe,
    file: '.gemini/oauth_creds.json',
    content: GEMINI,
    moved: ['GEMINI_CLI_HOME', 'elsewhere', '.gemini/oauth_creds.json'],
    expected: {
      family: 'gemini',
      baseUrl: 'https://cloudcode-pa.googleapis.com/v1internal',
      expiresAtMs: SOON,
      who: 'ada@example.test',
    },
  },
  kimi: {
    probe: kimiProbe,
    file: '.kimi-code/credentials/kimi-code.json',
    content: KIMI,
    moved: ['KIMI_CODE_HOME', 'elsewhere', 'credentials/kimi-code.json'],
    expected: { family: 'kimi', baseUrl: 'https://api.kimi.com/coding/v1', expiresAtMs: SOON },
  },
}

describe.each(Object.entries(CASES))('the login of %s', (id, { probe, file, content, moved, expected }) => {
  it('is found in its program’s own file', async () => {
    using here = machine()
    here.write(file, content)
    const [found, ...more] = await findWithProbe(probe, here.hostEnvironment)
    expect(more).toEqual([])
    expect(found?.account).toMatchObject({
      id,
      kind: 'oauth',
      billing: 'subscription',
      source: `~/${file}`,
      ...expected,
    })
    expect(JSON.stringify(found?.account)).not.toContain('made-up')
  })

  it('is found where a variable of that program points', async () => {
    using here = machine()
    const [variable, folder, inside] = moved
    here.write(join(folder, inside), content)
    const named = here.with({ environment: { [variable]: join(here.userHome, folder) } })
    expect(await findWithProbe(probe, here.hostEnvironment)).toEqual([])
    expect(await findWithProbe(probe, named)).toHaveLength(1)
  })

  it('is absent when its file is missing, empty, or without a login', async () => {
    using here = machine()
    expect(await probe.probe(here.hostEnvironment, NEVER_ABORTED)).toEqual([])
    for (const nothing of [
      '',
      ' \n',
      '{}',
      '{"access_token":"","claudeAiOauth":{"accessToken":""},"tokens":null}',
    ]) {
      here.write(file, nothing)
      expect(await probe.probe(here.hostEnvironment, NEVER_ABORTED)).toEqual([])
    }
  })

  it('is reported in one line and not changed when its file is damaged', async () => {
    using here = machine()
    const damaged = [
      content.slice(0, -5),
      '[1,2]',
      '"text"',
      JSON.stringify({ access_token: 7, claudeAiOauth: { accessToken: 7 }, tokens: { access_token: 7 } }),
      `${content}x`,
    ]
    for (const text of damaged) {
      here.write(file, text, 0o640)
      const [problem, ...more] = await probe.probe(here.hostEnvironment, NEVER_ABORTED)
      expect(more).toEqual([])
      expect(problem).toMatchObject({ id, problem: expect.stringContaining(file), hint: expect.any(String) })
      expect(JSON.stringify(problem)).not.toMatch(/\n|made-up/)
      expect(here.read(file)).toBe(text)
      expect(here.mode(file)).toBe(0o640)
    }
  })

  it('is not read when it is not a regular file, or is too large', async () => {
    using here = machine()
    mkdirSync(join(here.userHome, file), { recursive: true })
    expect(await problemsOf(probe, here.hostEnvironment)).toHaveLength(1)
    using large = machine()
    large.write(file, `${content}${' '.repeat(1024 * 1024)}`)
    expect((await problemsOf(probe, large.hostEnvironment))[0]?.problem).toContain('larger than 1 MiB')
  })

  it('has a stamp that changes with its file, and none while the file is young', async () => {
    using here = machine()
    const before = await probe.stamp(here.hostEnvironment)
    here.write(file, content)
    const after = await probe.stamp(here.hostEnvironment)
    expect(after).toBeDefined()
    expect(after).not.toBe(before)
    expect(await probe.stamp(here.hostEnvironment)).toBe(after)
    writeFileSync(join(here.userHome, file), content)
    expect(await probe.stamp(here.hostEnvironment)).toBeUndefined()
  })

  it('goes to the address in config/accounts.yaml', async () => {
    using here = machine({}, { [id]: { base_url: 'https://models.example/v1' } })
    here.write(file, content)
    expect((await findWithProbe(probe, here.hostEnvironment))[0]?.account.baseUrl).toBe(
      'https://models.example/v1',
    )
  })
})

it('a login in a linked folder is found', async () => {
  using here = machine()
  here.write('dotfiles/claude/.credentials.json', CLAUDE)
  symlinkSync(join(here.userHome, 'dotfiles/claude'), join(here.userHome, '.claude'))
  expect(await findWithProbe(claudeCodeProbe, here.hostEnvironment)).toHaveLength(1)
})

it('any content of a login file gives a login, none, or a problem that repeats nothing of it', () => {
  const formats = [claudeCodeFormat, codexFormat, geminiFormat, kimiFormat]
  fc.assert(
    fc.property(fc.constantFrom(...formats), fc.oneof(fc.json(), fc.string()), (format, text) => {
      try {
        expect(parseLoginFile(format, text, 'the file')?.tokens.accessToken).not.toBe('')
      } catch (error) {
        expect(error).toBeInstanceOf(VaultProblem)
      }
    }),
  )
})

describe('Codex', () => {
  it('has an API key beside its login, ranked after it unless the file prefers the key', async () => {
    using here = machine()
    const both = { ...JSON.parse(CODEX), OPENAI_API_KEY: 'made-up-key' }
    here.write('.codex/auth.json', JSON.stringify(both))
    const ids = async () =>
      (await findWithProbe(codexProbe, here.hostEnvironment)).map(({ account }) => account.id)
    expect(await ids()).toEqual(['codex', 'codex/OPENAI_API_KEY'])
    here.write('.codex/auth.json', JSON.stringify({ ...both, auth_mode: 'apikey' }))
    expect(await ids()).toEqual(['codex/OPENAI_API_KEY', 'codex'])
  })

  it('with only a key is metered, and its key is read again at each use', async () => {
    using here = machine()
    here.write('.codex/auth.json', '{"OPENAI_API_KEY":"made-up-key"}')
    const [found] = await findWithProbe(codexProbe, here.hostEnvironment)
    expect(found?.account).toMatchObject({ kind: 'api_key', billing: 'metered', family: 'openai' })
    if (found?.login.kind !== 'key') throw new Error('expected a key')
    here.write('.codex/auth.json', '{"OPENAI_API_KEY":"another-key"}')
    expect(await found.login.read(NEVER_ABORTED)).toBe('another-key')
    here.write('.codex/auth.json', '{}')
    await expect(found.login.read(NEVER_ABORTED)).rejects.toMatchObject({ code: 'unavailable' })
  })
})

it('Gemini’s earlier file is used when the present one is absent, and the present one is reported when damaged', async () => {
  using here = machine()
  here.write('.config/gemini/credentials.json', GEMINI)
  expect((await findWithProbe(geminiProbe, here.hostEnvironment))[0]?.account.source).toBe(
    '~/.config/gemini/credentials.json',
  )
  here.write('.gemini/oauth_creds.json', '{"access')
  const findings = await geminiProbe.probe(here.hostEnvironment, NEVER_ABORTED)
  expect(findings.map((finding) => 'problem' in finding)).toEqual([true, false])
})

it('a logout of Kimi applies although its file still exists', async () => {
  using here = machine()
  here.write('.kimi-code/credentials/kimi-code.json', KIMI)
  const { createHash } = await import('node:crypto')
  const digest = createHash('sha256').update(KIMI).digest('hex')
  here.write('.kimi-code/credentials/kimi-code.removed', JSON.stringify({ version: 1, file_digest: digest }))
  expect(await kimiProbe.probe(here.hostEnvironment, NEVER_ABORTED)).toEqual([])
})

it('OpenCode’s API keys of known families are found, and its own logins are reported as refreshed by OpenCode only', async () => {
  using here = machine()
  here.write(
    '.local/share/opencode/auth.json',
    JSON.stringify({
      openrouter: { type: 'api', key: 'made-up-key' },
      google: { type: 'api', key: '' },
      anthropic: { type: 'oauth', access: 'made-up', refresh: 'made-up', expires: 1 },
      openai: 'nonsense',
      somebody: { type: 'api', key: 'unknown' },
    }),
  )
  const findings = await opencodeProbe.probe(here.hostEnvironment, NEVER_ABORTED)
  expect(findings.map((finding) => ('problem' in finding ? `! ${finding.id}` : finding.account.id))).toEqual([
    'opencode/openrouter',
    '! opencode/anthropic',
    '! opencode/openai',
  ])
  expect(JSON.stringify(findings)).not.toContain('made-up')
  const moved = here.with({ environment: { XDG_DATA_HOME: join(here.userHome, 'data') } })
  expect(await opencodeProbe.probe(moved, NEVER_ABORTED)).toEqual([])
})
