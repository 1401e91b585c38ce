import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { redactText } from '../receipts/redaction/redact.ts'
import { homeAt } from '../store/home.ts'
import { ACCOUNT_FAMILIES, type Account, asBasic } from './account.ts'
import { claimsOf, expiryOf } from './jwt.ts'
import { claudeCodeFormat } from './logins/claude-code.ts'
import { codexFormat, codexKey } from './logins/codex.ts'
import { geminiFormat } from './logins/gemini.ts'
import { kimiFormat } from './logins/kimi.ts'
import { LOGIN_FILES, loginFileOf, planSentinelFiles, selectPreferredAccounts } from './sentinel-files.ts'
import { FAR_FUTURE_MS, isSentinel, openSentinels, sentinelsFrom } from './sentinels.ts'

const KEY = Buffer.alloc(32, 7)

function account(
  id: string,
  family: Account['family'],
  kind: Account['kind'],
  more: Partial<Account> = {},
): Account {
  return {
    id,
    family,
    kind,
    source: 'a test',
    expiresAtMs: undefined,
    who: undefined,
    baseUrl: 'https://models.example/v1',
    billing: 'metered',
    ...more,
  }
}

const SHAPES: readonly (readonly [Account, RegExp])[] = [
  [account('claude-code', 'anthropic', 'oauth'), /^sk-ant-oat01-[\w-]{93}AA$/],
  [account('secret/ANTHROPIC_API_KEY', 'anthropic', 'api_key'), /^sk-ant-api03-[\w-]{93}AA$/],
  [account('codex', 'openai', 'oauth', { plan: 'pro' }), /^eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+$/],
  [account('env/OPENAI_API_KEY', 'openai', 'api_key'), /^sk-proj-[\w-]{120}$/],
  [account('gemini', 'gemini', 'oauth'), /^ya29\.a0[\w-]{180}$/],
  [account('env/GEMINI_API_KEY', 'gemini', 'api_key'), /^AIzaSy[\w-]{33}$/],
  [account('opencode/openrouter', 'openrouter', 'api_key'), /^sk-or-v1-[0-9a-f]{64}$/],
  [account('kimi', 'kimi', 'oauth'), /^eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+$/],
  [account('env/KIMI_API_KEY', 'kimi', 'api_key'), /^sk-[A-Za-z0-9]{48}$/],
  [account('github', 'github', 'oauth'), /^gho_[A-Za-z0-9]{36}$/],
  [account('github', 'github', 'api_key'), /^ghp_[A-Za-z0-9]{36}$/],
]

describe.each(SHAPES)('the sentinel of $id ($kind)', (login, shape) => {
  const sentinel = sentinelsFrom(KEY).for('sbx_one', login)

  it('has the shape of the real credential, and redaction removes it', () => {
    expect(sentinel.presented).toMatch(shape)
    expect(redactText(`sent ${sentinel.presented} there`).text).not.toContain(sentinel.presented)
  })

  it('is the same each time, and differs between sandboxes, accounts and homes', () => {
    const again = sentinelsFrom(Buffer.from(KEY)).for('sbx_one', login)
    expect(again).toEqual(sentinel)
    expect(isSentinel(again.presented, sentinel.presented)).toBe(true)
    const others = [
      sentinelsFrom(KEY).for('sbx_two', login),
      sentinelsFrom(KEY).for('sbx_one', { ...login, id: `${login.id}2` }),
      sentinelsFrom(Buffer.alloc(32, 8)).for('sbx_one', login),
    ]
    for (const other of others) expect(isSentinel(other.presented, sentinel.presented)).toBe(false)
  })
})

it('no two sandboxes and accounts share a sentinel, even when their ids concatenate to the same text', () => {
  const text = fc.string({ minLength: 1, maxLength: 6, unit: fc.constantFrom('a', 'b', '/', '\0') })
  fc.assert(
    fc.property(text, text, text, text, (sandbox, id, otherSandbox, otherId) => {
      fc.pre(sandbox !== otherSandbox || id !== otherId)
      const made = sentinelsFrom(KEY)
      const one = made.for(sandbox, account(id, 'openrouter', 'api_key'))
      const other = made.for(otherSandbox, account(otherId, 'openrouter', 'api_key'))
      expect(one.presented).not.toBe(other.presented)
    }),
  )
})

it('the key of the sentinels is created once, is private, and is refused when damaged', () => {
  const folder = mkdtempSync(join(tmpdir(), 'craik-sentinels-'))
  try {
    const home = homeAt(join(folder, 'home'))
    const login = account('github', 'github', 'oauth')
    const first = openSentinels(home).for('sbx_one', login)
    expect(openSentinels(home).for('sbx_one', login)).toEqual(first)
    const path = join(home.secrets, 'sentinels.key')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    writeFileSync(path, 'short')
    expect(() => openSentinels(home)).toThrow('is damaged')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe('the files in the sandbox', () => {
  const planFiles = (login: Account) => {
    const sentinel = sentinelsFrom(KEY).for('sbx_one', login)
    return { sentinel, ...planSentinelFiles([{ account: login, sentinel }]) }
  }

  it.each([
    ['claude-code', 'anthropic', '.claude/.credentials.json', claudeCodeFormat],
    ['codex', 'openai', '.codex/auth.json', codexFormat],
    ['gemini', 'gemini', '.gemini/oauth_creds.json', geminiFormat],
    ['kimi', 'kimi', '.kimi-code/credentials/kimi-code.json', kimiFormat],
  ] as const)('of %s parse in their own format and never expire', (id, family, path, format) => {
    const { files, sentinel } = planFiles(
      account(id, family, 'oauth', { plan: 'pro', who: 'ada@example.test' }),
    )
    expect(files).toEqual([{ name: `${family}_token`, path, mode: 0o400, content: expect.any(String) }])
    expect(LOGIN_FILES[files[0]!.name]).toBe(path)
    const tokens = format.tokens(JSON.parse(files[0]!.content))
    expect(tokens).toMatchObject({ accessToken: sentinel.presented, expiresAtMs: FAR_FUTURE_MS })
    expect(files[0]!.content).not.toContain('ada@')
  })

  it('of Codex contain three valid tokens, with the plan and without the owner', () => {
    const { files } = planFiles(account('codex', 'openai', 'oauth', { plan: 'pro', who: 'ada@example.test' }))
    const { tokens, last_refresh } = JSON.parse(files[0]!.content)
    expect(claimsOf(tokens.id_token)).toMatchObject({
      email: 'sandbox@craik.invalid',
      'https://api.openai.com/auth': { chatgpt_plan_type: 'pro', chatgpt_account_id: tokens.account_id },
    })
    expect(expiryOf(tokens.id_token)).toBe(FAR_FUTURE_MS)
    expect(expiryOf(tokens.access_token)).toBe(FAR_FUTURE_MS)
    expect(Date.parse(last_refresh)).toBe(FAR_FUTURE_MS)
  })

  it('for an API key are its program’s file, OpenCode’s file, and a variable', () => {
    const { files, environment, sentinel } = planFiles(account('env/OPENAI_API_KEY', 'openai', 'api_key'))
    expect(codexKey(JSON.parse(files[0]!.content))?.key).toBe(sentinel.presented)
    expect(JSON.parse(files[1]!.content)).toEqual({ openai: { type: 'api', key: sentinel.presented } })
    expect(environment).toEqual({ OPENAI_API_KEY: sentinel.presented })
  })

  it('of GitHub are those that gh writes', () => {
    const { files, sentinel } = planFiles(
      account('github', 'github', 'oauth', { who: 'ada', gitBaseUrl: 'https://git.example' }),
    )
    expect(parse(files[0]!.content)).toEqual({
      'git.example': { oauth_token: sentinel.presented, git_protocol: 'https', user: 'ada' },
    })
  })

  it('are those of the first login of each family', () => {
    const all = SHAPES.map(([login]) => login)
    const chosen = selectPreferredAccounts(all)
    expect(chosen.map(({ family }) => family).sort()).toEqual([...ACCOUNT_FAMILIES].sort())
    const made = sentinelsFrom(KEY)
    const { files } = planSentinelFiles(
      chosen.map((login) => ({ account: login, sentinel: made.for('sbx_one', login) })),
    )
    expect(new Set(files.map(({ path }) => path)).size).toBe(files.length)
    expect(loginFileOf(chosen[0]!)).toBe('~/.claude/.credentials.json')
    expect(loginFileOf(account('env/GEMINI_API_KEY', 'gemini', 'api_key'))).toBe(
      '~/.local/share/opencode/auth.json, GEMINI_API_KEY',
    )
  })
})

it('git gets the GitHub token as a password', () => {
  const headers = { authorization: 'Bearer made-up', 'x-other': 'kept' }
  const basic = asBasic({
    accountId: 'github',
    baseUrl: 'https://api.github.com',
    headers,
    mergedHeaders: {},
    generation: '1',
  })
  expect(basic.headers['x-other']).toBe('kept')
  const [scheme, value] = basic.headers.authorization!.split(' ')
  expect(scheme).toBe('Basic')
  expect(Buffer.from(value!, 'base64').toString()).toBe('x-access-token:made-up')
})
