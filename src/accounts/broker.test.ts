import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Issuer, startIssuer } from '../../test/accounts/issuer.ts'
import { inProcessStore } from '../../test/in-process-store.ts'
import { CraikError } from '../errors.ts'
import { NEVER_ABORTED } from '../lib/never-aborted.fixture.ts'
import { fakeJwt, type TestMachine } from './accounts.fixture.ts'
import { brokerOf, CLAUDE, type Format, HOUR_MS, machineOf } from './broker.fixture.ts'
import type { BrokerOptions } from './broker.ts'

let issuer: Issuer
beforeAll(async () => {
  issuer = await startIssuer()
})
afterAll(() => issuer[Symbol.asyncDispose]())
beforeEach(() => {
  issuer.broken = undefined
  issuer.delayMs = 0
})

const here = (variables?: Readonly<Record<string, string>>) => machineOf(issuer, variables)
const brokerAt = (machine: TestMachine, more?: Partial<BrokerOptions>) => brokerOf(issuer, machine, more)

interface Expected extends Format {
  readonly contentType: string
  readonly fields: Record<string, unknown>
}

const FORMATS: Record<string, Expected> = {
  'claude-code': {
    ...CLAUDE,
    contentType: 'application/json',
    fields: {
      grant_type: 'refresh_token',
      scope: 'user:inference user:profile',
      client_id: expect.any(String),
    },
  },
  gemini: {
    file: '.gemini/oauth_creds.json',
    write: ({ access_token, refresh_token }, expiry_date) =>
      `${JSON.stringify({ access_token, refresh_token, expiry_date, other: 'kept' }, null, 2)}\n`,
    accessToken: (content) => JSON.parse(content).access_token,
    refreshToken: (content) => JSON.parse(content).refresh_token,
    contentType: 'application/x-www-form-urlencoded',
    fields: {
      grant_type: 'refresh_token',
      client_id: expect.stringContaining('.apps.googleusercontent.com'),
      client_secret: expect.any(String),
    },
  },
  kimi: {
    file: '.kimi-code/credentials/kimi-code.json',
    write: ({ access_token, refresh_token }, expiresAtMs) =>
      JSON.stringify({ access_token, refresh_token, expires_at: expiresAtMs / 1000, other: 'kept' }),
    accessToken: (content) => JSON.parse(content).access_token,
    refreshToken: (content) => JSON.parse(content).refresh_token,
    contentType: 'application/x-www-form-urlencoded',
    fields: { grant_type: 'refresh_token', client_id: expect.any(String) },
  },
}

describe.each(Object.entries(FORMATS))('the login of %s', (id, format) => {
  it('is used unchanged until it expires', async () => {
    using machine = here()
    const pair = issuer.login()
    machine.write(format.file, format.write(pair, Date.now() + HOUR_MS))
    const before = issuer.refreshes.length
    const { headers, accountId } = await brokerAt(machine).credential(id, NEVER_ABORTED)
    expect(accountId).toBe(id)
    expect(headers.authorization).toBe(`Bearer ${pair.access_token}`)
    expect(issuer.refreshes).toHaveLength(before)
  })

  it('is refreshed before it expires, once for all callers, and written back with its other fields unchanged', async () => {
    using machine = here()
    const old = format.write(issuer.login(), Date.now() + 1_000)
    machine.write(format.file, old, 0o640)
    const before = issuer.refreshes.length
    const broker = brokerAt(machine)
    const all = await Promise.all(Array.from({ length: 20 }, () => broker.credential(id, NEVER_ABORTED)))
    expect(issuer.refreshes).toHaveLength(before + 1)
    expect(issuer.refreshes.at(-1)).toMatchObject({
      contentType: format.contentType,
      fields: { ...format.fields, refresh_token: format.refreshToken(old) },
    })
    const now = machine.read(format.file)
    const token = format.accessToken(now)
    expect(issuer.isAlive(token)).toBe(true)
    expect(new Set(all.map(({ headers }) => headers.authorization))).toEqual(new Set([`Bearer ${token}`]))
    expect(now).toContain('kept')
    expect(now.includes('\n')).toBe(old.includes('\n'))
    expect(machine.mode(format.file)).toBe(0o640)
    const [account] = await broker.accounts(NEVER_ABORTED)
    expect(account?.expiresAtMs).toBeGreaterThan(Date.now() + HOUR_MS / 2)
    expect(readdirSync(machine.home.secrets).filter((name) => name.endsWith('.json'))).toEqual([])
  })
})

it('a Codex login is refreshed with its account id and gets a refresh date', async () => {
  using machine = here()
  const pair = issuer.login()
  const exp = (Date.now() + 1_000) / 1000
  const tokens = { access_token: fakeJwt({ exp }), refresh_token: pair.refresh_token, account_id: 'acct-1' }
  machine.write('.codex/auth.json', JSON.stringify({ OPENAI_API_KEY: null, tokens, kept: true }, null, 2))
  const { headers } = await brokerAt(machine).credential('codex', NEVER_ABORTED)
  const now = JSON.parse(machine.read('.codex/auth.json'))
  expect(headers).toEqual({
    authorization: `Bearer ${now.tokens.access_token}`,
    'chatgpt-account-id': 'acct-1',
  })
  expect(now).toMatchObject({ kept: true, OPENAI_API_KEY: null, tokens: { account_id: 'acct-1' } })
  expect(Date.parse(now.last_refresh)).toBeGreaterThan(Date.now() - 60_000)
  expect(issuer.refreshes.at(-1)?.fields).toEqual({
    client_id: expect.any(String),
    grant_type: 'refresh_token',
    refresh_token: pair.refresh_token,
  })
})

describe('Claude Code’s login', () => {
  it('has its beta header merged with the client’s own', async () => {
    using machine = here()
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    const { mergedHeaders } = await brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    expect(mergedHeaders).toEqual({ 'anthropic-beta': 'oauth-2025-04-20' })
  })

  it('is refreshed in the background while the old token is still valid', async () => {
    using machine = here()
    const pair = issuer.login()
    machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + 2 * 60_000))
    const broker = brokerAt(machine)
    const { headers } = await broker.credential('claude-code', NEVER_ABORTED)
    expect(headers.authorization).toBe(`Bearer ${pair.access_token}`)
    await expect
      .poll(async () => (await broker.credential('claude-code', NEVER_ABORTED)).headers.authorization)
      .not.toBe(`Bearer ${pair.access_token}`)
  })

  it('that is removed on the host stops working at once, and a new one is found at once', async () => {
    using machine = here()
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    const broker = brokerAt(machine)
    await broker.credential('claude-code', NEVER_ABORTED)
    rmSync(join(machine.userHome, CLAUDE.file))
    await expect(broker.credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({
      code: 'unavailable',
    })
    expect(await broker.accounts(NEVER_ABORTED)).toEqual([])
    const next = issuer.login()
    machine.write(CLAUDE.file, CLAUDE.write(next, Date.now() + HOUR_MS))
    const { headers } = await broker.credential('claude-code', NEVER_ABORTED)
    expect(headers.authorization).toBe(`Bearer ${next.access_token}`)
  })

  it('that was refused is refreshed once; the broker gives up when the fresh one is refused too', async () => {
    using machine = here()
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    const broker = brokerAt(machine)
    const first = await broker.credential('claude-code', NEVER_ABORTED)
    const before = issuer.refreshes.length
    const [second, same] = await Promise.all([
      broker.renewAfterRefusal('claude-code', first.generation, NEVER_ABORTED),
      broker.renewAfterRefusal('claude-code', first.generation, NEVER_ABORTED),
    ])
    expect(second?.generation).not.toBe(first.generation)
    expect(same).toEqual(second)
    expect(await broker.renewAfterRefusal('claude-code', first.generation, NEVER_ABORTED)).toEqual(second)
    expect(await broker.renewAfterRefusal('claude-code', second!.generation, NEVER_ABORTED)).toBeUndefined()
    expect(await broker.renewAfterRefusal('claude-code', second!.generation, NEVER_ABORTED)).toBeUndefined()
    expect(issuer.refreshes).toHaveLength(before + 1)
  })

  it('that its issuer rejects is reported as ended, and its issuer is not called again', async () => {
    using machine = here({ ANTHROPIC_API_KEY: 'made-up-key' })
    const dead = { access_token: 'made-up-access', refresh_token: 'made-up-refresh', expires_in: 1 }
    machine.write(CLAUDE.file, CLAUDE.write(dead, Date.now() - 1_000))
    const content = machine.read(CLAUDE.file)
    const broker = brokerAt(machine)
    await expect(broker.credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({
      code: 'unavailable',
    })
    const before = issuer.refreshes.length
    await expect(broker.credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({
      code: 'unavailable',
    })
    expect(issuer.refreshes).toHaveLength(before)
    expect((await broker.accounts(NEVER_ABORTED)).map(({ id }) => id)).toEqual(['env/ANTHROPIC_API_KEY'])
    expect(await broker.problems(NEVER_ABORTED)).toMatchObject([
      { id: 'claude-code', hint: expect.any(String) },
    ])
    expect(machine.read(CLAUDE.file)).toBe(content)
  })

  it('that has ended stays ended for the next process, until its file has another token', async () => {
    using machine = here()
    const dead = { access_token: 'made-up-access', refresh_token: 'made-up-refresh', expires_in: 1 }
    machine.write(CLAUDE.file, CLAUDE.write(dead, Date.now() - 1_000))
    await expect(brokerAt(machine).credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({
      hint: 'log in again:  claude /login',
      details: undefined,
    })
    const before = issuer.refreshes.length
    const next = brokerAt(machine)
    expect(await next.accounts(NEVER_ABORTED)).toEqual([])
    expect(await next.problems(NEVER_ABORTED)).toMatchObject([{ id: 'claude-code', ended: true }])
    await expect(next.credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({ code: 'unavailable' })
    expect(issuer.refreshes).toHaveLength(before)
    await expect(
      brokerAt(machine, { asksAgain: true }).credential('claude-code', NEVER_ABORTED),
    ).rejects.toThrow()
    expect(issuer.refreshes).toHaveLength(before + 1)
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    expect(await brokerAt(machine).accounts(NEVER_ABORTED)).toMatchObject([{ id: 'claude-code' }])
    expect(await next.accounts(NEVER_ABORTED)).toMatchObject([{ id: 'claude-code' }])
  })

  it('that its provider refuses and its issuer does not renew has ended, even before its expiry time', async () => {
    using machine = here()
    const dead = { access_token: 'made-up-access', refresh_token: 'made-up-refresh', expires_in: 1 }
    machine.write(CLAUDE.file, CLAUDE.write(dead, Date.now() + HOUR_MS))
    const broker = brokerAt(machine)
    const { generation } = await broker.credential('claude-code', NEVER_ABORTED)
    expect(await broker.accounts(NEVER_ABORTED)).toHaveLength(1)
    expect(await broker.renewAfterRefusal('claude-code', generation, NEVER_ABORTED)).toBeUndefined()
    for (const each of [broker, brokerAt(machine)]) {
      expect(await each.accounts(NEVER_ABORTED)).toEqual([])
      expect(await each.problems(NEVER_ABORTED)).toMatchObject([
        { ended: true, hint: 'log in again:  claude /login' },
      ])
      await expect(each.credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({
        code: 'unavailable',
      })
    }
    const notes = readdirSync(machine.home.secrets).filter((name) => name.endsWith('.ended'))
    expect(notes).toHaveLength(1)
    expect(readFileSync(join(machine.home.secrets, notes[0]!), 'utf8')).not.toContain('made-up')
  })

  it('is used until it expires while its issuer fails, and then reports the failure', async () => {
    using machine = here()
    const pair = issuer.login()
    issuer.broken = { status: 503, text: 'made-up-secret in an error page' }
    machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + 30_000))
    const { headers } = await brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    expect(headers.authorization).toBe(`Bearer ${pair.access_token}`)
    machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
    const error = await brokerAt(machine).credential('claude-code', NEVER_ABORTED).catch(String)
    expect(error).toContain('503')
    await expect(brokerAt(machine).credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({
      hint: 'try again; if that fails, log in again:  claude /login',
      details: { renewal: 'failed' },
    })
    expect(error).not.toContain('made-up')
    for (const text of ['', '{"access_token":5}', 'x'.repeat(300_000)]) {
      issuer.broken = { status: 200, text }
      await expect(brokerAt(machine).credential('claude-code', NEVER_ABORTED)).rejects.toMatchObject({
        code: 'unavailable',
      })
    }
    expect(CLAUDE.refreshToken(machine.read(CLAUDE.file))).toBe(pair.refresh_token)
  })
})

it('a caller that aborts does not stop a refresh that others wait for', async () => {
  using machine = here()
  machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
  issuer.delayMs = 200
  const broker = brokerAt(machine)
  const controller = new AbortController()
  const left = expect(broker.credential('claude-code', controller.signal)).rejects.toThrow('gone')
  const staying = broker.credential('claude-code', NEVER_ABORTED)
  controller.abort(new Error('gone'))
  await left
  expect((await staying).headers.authorization).toContain('Bearer ')
})

it('accounts are listed in their order, environment keys last, and each key goes into its own header', async () => {
  using machine = here({
    ANTHROPIC_API_KEY: 'made-up-a',
    GEMINI_API_KEY: 'made-up-g',
    OPENROUTER_API_KEY: 'made-up-o',
  })
  machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
  machine.write('.local/share/opencode/auth.json', '{"openrouter":{"type":"api","key":"made-up-file"}}')
  const broker = brokerAt(machine)
  expect((await broker.accounts(NEVER_ABORTED)).map(({ id }) => id)).toEqual([
    'claude-code',
    'opencode/openrouter',
    'env/ANTHROPIC_API_KEY',
    'env/GEMINI_API_KEY',
    'env/OPENROUTER_API_KEY',
  ])
  const headersOf = async (id: string) => (await broker.credential(id, NEVER_ABORTED)).headers
  expect(await headersOf('env/ANTHROPIC_API_KEY')).toEqual({ 'x-api-key': 'made-up-a' })
  expect(await headersOf('env/GEMINI_API_KEY')).toEqual({ 'x-goog-api-key': 'made-up-g' })
  expect(await headersOf('opencode/openrouter')).toEqual({ authorization: 'Bearer made-up-file' })
  const { generation } = await broker.credential('opencode/openrouter', NEVER_ABORTED)
  expect(await broker.renewAfterRefusal('opencode/openrouter', generation, NEVER_ABORTED)).toBeUndefined()
  machine.write('.local/share/opencode/auth.json', '{"openrouter":{"type":"api","key":"made-up-new"}}')
  expect(
    (await broker.renewAfterRefusal('opencode/openrouter', generation, NEVER_ABORTED))?.headers.authorization,
  ).toBe('Bearer made-up-new')
  await expect(broker.credential('nobody', NEVER_ABORTED)).rejects.toMatchObject({ code: 'unavailable' })
})

it('every refresh is recorded before the request to the issuer, with its outcome and without a token', async () => {
  using machine = here()
  const pair = issuer.login()
  machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
  const store = inProcessStore({ nowMs: () => Date.now() })
  const { log } = store
  await brokerAt(machine, { log }).credential('claude-code', NEVER_ABORTED)
  const login = {
    kind: 'login',
    capability: 'login.use',
    operation: 'refresh',
    target: 'account/claude-code',
  }
  const bodies = await store.bodies()
  expect(bodies).toMatchObject([
    { ...login, phase: 'begin' },
    { ...login, phase: 'end', status: 'passed', metadata: { outcome: 'refreshed' } },
  ])
  expect(JSON.stringify(bodies)).not.toMatch(/access-|refresh-/)
  const before = issuer.refreshes.length
  machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
  store.database.close()
  await expect(brokerAt(machine, { log }).credential('claude-code', NEVER_ABORTED)).rejects.toThrow()
  expect(issuer.refreshes).toHaveLength(before)
})

describe('an address that changes in config', () => {
  it('applies from the next call on, to listed accounts and to sent requests', async () => {
    using machine = here({ OPENAI_API_KEY: 'made-up-key' })
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    let base_url = 'https://one.example/v1'
    const overrides = async () => ({ 'claude-code': { base_url }, 'env/OPENAI_API_KEY': { base_url } })
    const broker = brokerAt(machine, { overrides })
    const ids = ['claude-code', 'env/OPENAI_API_KEY']
    const listBaseUrls = async () => (await broker.accounts(NEVER_ABORTED)).map((account) => account.baseUrl)
    const findBaseUrls = () =>
      Promise.all(ids.map(async (id) => (await broker.credential(id, NEVER_ABORTED)).baseUrl))
    expect([await listBaseUrls(), await findBaseUrls()]).toEqual([
      [base_url, base_url],
      [base_url, base_url],
    ])
    base_url = 'https://two.example/v1'
    expect([await findBaseUrls(), await listBaseUrls()]).toEqual([
      [base_url, base_url],
      [base_url, base_url],
    ])
  })

  it('is the address where a login is renewed', async () => {
    using machine = here()
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
    let token_url = 'https://127.0.0.1:1/token'
    const broker = brokerAt(machine, { overrides: async () => ({ 'claude-code': { token_url } }) })
    await broker.accounts(NEVER_ABORTED)
    token_url = issuer.tokenUrl
    expect((await broker.credential('claude-code', NEVER_ABORTED)).headers.authorization).toMatch(/^Bearer /)
  })

  it('refuses every call while the config is invalid', async () => {
    using machine = here({ OPENAI_API_KEY: 'made-up-key' })
    let isDamaged = false
    const overrides = async () => {
      if (isDamaged) throw new CraikError('invalid_config', 'config/accounts.yaml: damaged')
      return {}
    }
    const broker = brokerAt(machine, { overrides })
    const { generation } = await broker.credential('env/OPENAI_API_KEY', NEVER_ABORTED)
    isDamaged = true
    const refused = { code: 'invalid_config' }
    await expect(broker.accounts(NEVER_ABORTED)).rejects.toMatchObject(refused)
    await expect(broker.credential('env/OPENAI_API_KEY', NEVER_ABORTED)).rejects.toMatchObject(refused)
    await expect(
      broker.renewAfterRefusal('env/OPENAI_API_KEY', generation, NEVER_ABORTED),
    ).rejects.toMatchObject(refused)
  })
})

describe('a login that is forwarded unchanged', () => {
  it('is its program’s file, byte for byte, under the name that the pipe uses for it', async () => {
    using machine = here()
    const claude = ` ${CLAUDE.write(issuer.login(), Date.now() + HOUR_MS)}\n\n`
    machine.write(CLAUDE.file, claude)
    machine.write('.config/gemini/credentials.json', '{"access_token":"made-up"}')
    machine.write('.codex/auth.json', '{"OPENAI_API_KEY":"made-up"}')
    const broker = brokerAt(machine)
    const forward = async (id: string) => {
      const { content, ...where } = await broker.forward(id, NEVER_ABORTED)
      return { ...where, text: content.toString() }
    }
    expect(await forward('claude-code')).toEqual({
      path: CLAUDE.file,
      tmpfsName: 'anthropic_token',
      text: claude,
    })
    expect(await forward('gemini')).toMatchObject({
      path: '.config/gemini/credentials.json',
      tmpfsName: 'gemini_token',
    })
    expect(await forward('codex/OPENAI_API_KEY')).toEqual({
      path: '.codex/auth.json',
      tmpfsName: 'openai_token',
      text: '{"OPENAI_API_KEY":"made-up"}',
    })
  })

  it('is missing when the login is not a file, or is gone', async () => {
    using machine = here({ OPENAI_API_KEY: 'made-up-key' })
    const broker = brokerAt(machine)
    await expect(broker.forward('env/OPENAI_API_KEY', NEVER_ABORTED)).rejects.toMatchObject({
      code: 'unavailable',
    })
    await expect(broker.forward('claude-code', NEVER_ABORTED)).rejects.toMatchObject({ code: 'unavailable' })
  })
})
