import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Issuer, startIssuer } from '../../test/accounts/issuer.ts'
import { inProcessStore } from '../../test/in-process-store.ts'
import { CraikError } from '../errors.ts'
import { fakeJwt, type Machine, NEVER } from './accounts.fixture.ts'
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
const brokerAt = (place: Machine, more?: Partial<BrokerOptions>) => brokerOf(issuer, place, more)

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
  it('is used as it is while it lasts', async () => {
    using place = here()
    const pair = issuer.login()
    place.write(format.file, format.write(pair, Date.now() + HOUR_MS))
    const before = issuer.refreshes.length
    const { headers, accountId } = await brokerAt(place).credential(id, NEVER)
    expect(accountId).toBe(id)
    expect(headers.authorization).toBe(`Bearer ${pair.access_token}`)
    expect(issuer.refreshes).toHaveLength(before)
  })

  it('is refreshed before it runs out, once for all that ask, and written back with all else kept', async () => {
    using place = here()
    const old = format.write(issuer.login(), Date.now() + 1_000)
    place.write(format.file, old, 0o640)
    const before = issuer.refreshes.length
    const broker = brokerAt(place)
    const all = await Promise.all(Array.from({ length: 20 }, () => broker.credential(id, NEVER)))
    expect(issuer.refreshes).toHaveLength(before + 1)
    expect(issuer.refreshes.at(-1)).toMatchObject({
      contentType: format.contentType,
      fields: { ...format.fields, refresh_token: format.refreshToken(old) },
    })
    const now = place.read(format.file)
    const token = format.accessToken(now)
    expect(issuer.isAlive(token)).toBe(true)
    expect(new Set(all.map(({ headers }) => headers.authorization))).toEqual(new Set([`Bearer ${token}`]))
    expect(now).toContain('kept')
    expect(now.includes('\n')).toBe(old.includes('\n'))
    expect(place.mode(format.file)).toBe(0o640)
    const [account] = await broker.accounts(NEVER)
    expect(account?.expiresAtMs).toBeGreaterThan(Date.now() + HOUR_MS / 2)
    expect(readdirSync(place.home.secrets).filter((name) => name.endsWith('.json'))).toEqual([])
  })
})

it('a login of Codex is refreshed with its account named, and dated', async () => {
  using place = here()
  const pair = issuer.login()
  const exp = (Date.now() + 1_000) / 1000
  const tokens = { access_token: fakeJwt({ exp }), refresh_token: pair.refresh_token, account_id: 'acct-1' }
  place.write('.codex/auth.json', JSON.stringify({ OPENAI_API_KEY: null, tokens, kept: true }, null, 2))
  const { headers } = await brokerAt(place).credential('codex', NEVER)
  const now = JSON.parse(place.read('.codex/auth.json'))
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
  it('has its beta merged with the client’s own', async () => {
    using place = here()
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    const { mergedHeaders } = await brokerAt(place).credential('claude-code', NEVER)
    expect(mergedHeaders).toEqual({ 'anthropic-beta': 'oauth-2025-04-20' })
  })

  it('is fetched anew in the background while enough of it is left', async () => {
    using place = here()
    const pair = issuer.login()
    place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + 2 * 60_000))
    const broker = brokerAt(place)
    const { headers } = await broker.credential('claude-code', NEVER)
    expect(headers.authorization).toBe(`Bearer ${pair.access_token}`)
    await expect
      .poll(async () => (await broker.credential('claude-code', NEVER)).headers.authorization)
      .not.toBe(`Bearer ${pair.access_token}`)
  })

  it('that ends on the host ends here at once, and a new one is seen at once', async () => {
    using place = here()
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    const broker = brokerAt(place)
    await broker.credential('claude-code', NEVER)
    rmSync(join(place.userHome, CLAUDE.file))
    await expect(broker.credential('claude-code', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
    expect(await broker.accounts(NEVER)).toEqual([])
    const next = issuer.login()
    place.write(CLAUDE.file, CLAUDE.write(next, Date.now() + HOUR_MS))
    const { headers } = await broker.credential('claude-code', NEVER)
    expect(headers.authorization).toBe(`Bearer ${next.access_token}`)
  })

  it('that was refused is refreshed once, and a fresh one that is refused too is given up', async () => {
    using place = here()
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    const broker = brokerAt(place)
    const first = await broker.credential('claude-code', NEVER)
    const before = issuer.refreshes.length
    const [second, same] = await Promise.all([
      broker.refused('claude-code', first.generation, NEVER),
      broker.refused('claude-code', first.generation, NEVER),
    ])
    expect(second?.generation).not.toBe(first.generation)
    expect(same).toEqual(second)
    expect(await broker.refused('claude-code', first.generation, NEVER)).toEqual(second)
    expect(await broker.refused('claude-code', second!.generation, NEVER)).toBeUndefined()
    expect(await broker.refused('claude-code', second!.generation, NEVER)).toBeUndefined()
    expect(issuer.refreshes).toHaveLength(before + 1)
  })

  it('that its issuer does not know any more is reported as ended, and not asked about again', async () => {
    using place = here({ ANTHROPIC_API_KEY: 'made-up-key' })
    const dead = { access_token: 'made-up-access', refresh_token: 'made-up-refresh', expires_in: 1 }
    place.write(CLAUDE.file, CLAUDE.write(dead, Date.now() - 1_000))
    const content = place.read(CLAUDE.file)
    const broker = brokerAt(place)
    await expect(broker.credential('claude-code', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
    const before = issuer.refreshes.length
    await expect(broker.credential('claude-code', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
    expect(issuer.refreshes).toHaveLength(before)
    expect((await broker.accounts(NEVER)).map(({ id }) => id)).toEqual(['env/ANTHROPIC_API_KEY'])
    expect(await broker.problems(NEVER)).toMatchObject([{ id: 'claude-code', hint: expect.any(String) }])
    expect(place.read(CLAUDE.file)).toBe(content)
  })

  it('that has ended is known as such to the next process, until another token is in its file', async () => {
    using place = here()
    const dead = { access_token: 'made-up-access', refresh_token: 'made-up-refresh', expires_in: 1 }
    place.write(CLAUDE.file, CLAUDE.write(dead, Date.now() - 1_000))
    await expect(brokerAt(place).credential('claude-code', NEVER)).rejects.toMatchObject({
      hint: 'log in again:  claude /login',
      details: undefined,
    })
    const before = issuer.refreshes.length
    const next = brokerAt(place)
    expect(await next.accounts(NEVER)).toEqual([])
    expect(await next.problems(NEVER)).toMatchObject([{ id: 'claude-code', ended: true }])
    await expect(next.credential('claude-code', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
    expect(issuer.refreshes).toHaveLength(before)
    await expect(brokerAt(place, { asksAgain: true }).credential('claude-code', NEVER)).rejects.toThrow()
    expect(issuer.refreshes).toHaveLength(before + 1)
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    expect(await brokerAt(place).accounts(NEVER)).toMatchObject([{ id: 'claude-code' }])
    expect(await next.accounts(NEVER)).toMatchObject([{ id: 'claude-code' }])
  })

  it('that its provider refuses and its issuer does not renew has ended, whatever time it says is left', async () => {
    using place = here()
    const dead = { access_token: 'made-up-access', refresh_token: 'made-up-refresh', expires_in: 1 }
    place.write(CLAUDE.file, CLAUDE.write(dead, Date.now() + HOUR_MS))
    const broker = brokerAt(place)
    const { generation } = await broker.credential('claude-code', NEVER)
    expect(await broker.accounts(NEVER)).toHaveLength(1)
    expect(await broker.refused('claude-code', generation, NEVER)).toBeUndefined()
    for (const each of [broker, brokerAt(place)]) {
      expect(await each.accounts(NEVER)).toEqual([])
      expect(await each.problems(NEVER)).toMatchObject([
        { ended: true, hint: 'log in again:  claude /login' },
      ])
      await expect(each.credential('claude-code', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
    }
    const notes = readdirSync(place.home.secrets).filter((name) => name.endsWith('.ended'))
    expect(notes).toHaveLength(1)
    expect(readFileSync(join(place.home.secrets, notes[0]!), 'utf8')).not.toContain('made-up')
  })

  it('is used to its end while its issuer fails, and then says what failed', async () => {
    using place = here()
    const pair = issuer.login()
    issuer.broken = { status: 503, text: 'made-up-secret in an error page' }
    place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + 30_000))
    const { headers } = await brokerAt(place).credential('claude-code', NEVER)
    expect(headers.authorization).toBe(`Bearer ${pair.access_token}`)
    place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
    const error = await brokerAt(place).credential('claude-code', NEVER).catch(String)
    expect(error).toContain('503')
    await expect(brokerAt(place).credential('claude-code', NEVER)).rejects.toMatchObject({
      hint: 'try again; if that fails, log in again:  claude /login',
      details: { renewal: 'failed' },
    })
    expect(error).not.toContain('made-up')
    for (const text of ['', '{"access_token":5}', 'x'.repeat(300_000)]) {
      issuer.broken = { status: 200, text }
      await expect(brokerAt(place).credential('claude-code', NEVER)).rejects.toMatchObject({
        code: 'unavailable',
      })
    }
    expect(CLAUDE.refreshToken(place.read(CLAUDE.file))).toBe(pair.refresh_token)
  })
})

it('a caller that leaves does not stop a refresh that others wait for', async () => {
  using place = here()
  place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
  issuer.delayMs = 200
  const broker = brokerAt(place)
  const leaving = new AbortController()
  const left = expect(broker.credential('claude-code', leaving.signal)).rejects.toThrow('gone')
  const staying = broker.credential('claude-code', NEVER)
  leaving.abort(new Error('gone'))
  await left
  expect((await staying).headers.authorization).toContain('Bearer ')
})

it('accounts come in their order, keys of the environment last, and each key in its own header', async () => {
  using place = here({
    ANTHROPIC_API_KEY: 'made-up-a',
    GEMINI_API_KEY: 'made-up-g',
    OPENROUTER_API_KEY: 'made-up-o',
  })
  place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
  place.write('.local/share/opencode/auth.json', '{"openrouter":{"type":"api","key":"made-up-file"}}')
  const broker = brokerAt(place)
  expect((await broker.accounts(NEVER)).map(({ id }) => id)).toEqual([
    ...['claude-code', 'opencode/openrouter'],
    ...['env/ANTHROPIC_API_KEY', 'env/GEMINI_API_KEY', 'env/OPENROUTER_API_KEY'],
  ])
  const headersOf = async (id: string) => (await broker.credential(id, NEVER)).headers
  expect(await headersOf('env/ANTHROPIC_API_KEY')).toEqual({ 'x-api-key': 'made-up-a' })
  expect(await headersOf('env/GEMINI_API_KEY')).toEqual({ 'x-goog-api-key': 'made-up-g' })
  expect(await headersOf('opencode/openrouter')).toEqual({ authorization: 'Bearer made-up-file' })
  const { generation } = await broker.credential('opencode/openrouter', NEVER)
  expect(await broker.refused('opencode/openrouter', generation, NEVER)).toBeUndefined()
  place.write('.local/share/opencode/auth.json', '{"openrouter":{"type":"api","key":"made-up-new"}}')
  expect((await broker.refused('opencode/openrouter', generation, NEVER))?.headers.authorization).toBe(
    'Bearer made-up-new',
  )
  await expect(broker.credential('nobody', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
})

it('every refresh is on record before the issuer is asked, with its outcome and no token', async () => {
  using place = here()
  const pair = issuer.login()
  place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
  const store = inProcessStore({ nowMs: () => Date.now() })
  const { log } = store
  await brokerAt(place, { log }).credential('claude-code', NEVER)
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
  place.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
  store.database.close()
  await expect(brokerAt(place, { log }).credential('claude-code', NEVER)).rejects.toThrow()
  expect(issuer.refreshes).toHaveLength(before)
})

describe('an address that changes in config', () => {
  it('holds from the next call on, for what is listed and for what is sent', async () => {
    using place = here({ OPENAI_API_KEY: 'made-up-key' })
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() + HOUR_MS))
    let base_url = 'https://one.example/v1'
    const overrides = async () => ({ 'claude-code': { base_url }, 'env/OPENAI_API_KEY': { base_url } })
    const broker = brokerAt(place, { overrides })
    const ids = ['claude-code', 'env/OPENAI_API_KEY']
    const listed = async () => (await broker.accounts(NEVER)).map((account) => account.baseUrl)
    const sent = () => Promise.all(ids.map(async (id) => (await broker.credential(id, NEVER)).baseUrl))
    expect([await listed(), await sent()]).toEqual([
      [base_url, base_url],
      [base_url, base_url],
    ])
    base_url = 'https://two.example/v1'
    expect([await sent(), await listed()]).toEqual([
      [base_url, base_url],
      [base_url, base_url],
    ])
  })

  it('is where a login is renewed', async () => {
    using place = here()
    place.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
    let token_url = 'https://127.0.0.1:1/token'
    const broker = brokerAt(place, { overrides: async () => ({ 'claude-code': { token_url } }) })
    await broker.accounts(NEVER)
    token_url = issuer.tokenUrl
    expect((await broker.credential('claude-code', NEVER)).headers.authorization).toMatch(/^Bearer /)
  })

  it('refuses everything while config cannot be used', async () => {
    using place = here({ OPENAI_API_KEY: 'made-up-key' })
    let isDamaged = false
    const overrides = async () => {
      if (isDamaged) throw new CraikError('invalid_config', 'config/accounts.yaml: damaged')
      return {}
    }
    const broker = brokerAt(place, { overrides })
    const { generation } = await broker.credential('env/OPENAI_API_KEY', NEVER)
    isDamaged = true
    const refused = { code: 'invalid_config' }
    await expect(broker.accounts(NEVER)).rejects.toMatchObject(refused)
    await expect(broker.credential('env/OPENAI_API_KEY', NEVER)).rejects.toMatchObject(refused)
    await expect(broker.refused('env/OPENAI_API_KEY', generation, NEVER)).rejects.toMatchObject(refused)
  })
})

describe('a login that is handed over as it is', () => {
  it('is the file of its program, byte for byte, under the name that the pipe has for it', async () => {
    using place = here()
    const claude = ` ${CLAUDE.write(issuer.login(), Date.now() + HOUR_MS)}\n\n`
    place.write(CLAUDE.file, claude)
    place.write('.config/gemini/credentials.json', '{"access_token":"made-up"}')
    place.write('.codex/auth.json', '{"OPENAI_API_KEY":"made-up"}')
    const broker = brokerAt(place)
    const forwarded = async (id: string) => {
      const { content, ...where } = await broker.forward(id, NEVER)
      return { ...where, text: content.toString() }
    }
    expect(await forwarded('claude-code')).toEqual({
      path: CLAUDE.file,
      tmpfsName: 'anthropic_token',
      text: claude,
    })
    expect(await forwarded('gemini')).toMatchObject({
      path: '.config/gemini/credentials.json',
      tmpfsName: 'gemini_token',
    })
    expect(await forwarded('codex/OPENAI_API_KEY')).toEqual({
      path: '.codex/auth.json',
      tmpfsName: 'openai_token',
      text: '{"OPENAI_API_KEY":"made-up"}',
    })
  })

  it('is none where it is no file, or is gone', async () => {
    using place = here({ OPENAI_API_KEY: 'made-up-key' })
    const broker = brokerAt(place)
    await expect(broker.forward('env/OPENAI_API_KEY', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
    await expect(broker.forward('claude-code', NEVER)).rejects.toMatchObject({ code: 'unavailable' })
  })
})
