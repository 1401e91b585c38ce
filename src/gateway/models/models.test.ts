import { afterEach, expect, test } from 'vitest'
import { startAnthropic } from '../../../test/wire/anthropic.ts'
import type { Act } from '../../../test/wire/wire-server.ts'
import { tokenBudget } from '../../providers/dispatch.fixture.ts'
import {
  account,
  CERTIFICATE,
  type GatewayScene,
  gatewayScene,
  holdsSentinel,
  MemoryBroker,
  NEW_KEY,
  REAL_KEY,
  sentinelOf,
} from '../gateway.fixture.ts'
import {
  ANTHROPIC,
  CHAT,
  DIALECT_CLIENTS,
  type DialectClient,
  GEMINI,
  HELLO_TEXT,
} from './dialect-clients.fixture.ts'

const cleanups: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of cleanups.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

async function scene(
  client: DialectClient,
  script: readonly Act[],
  options: Partial<Parameters<typeof gatewayScene>[0]> = {},
) {
  const server = await client.start(script)
  cleanups.push(server)
  const login = client.login(server.baseUrl)
  const broker = new MemoryBroker(login)
  const gateway = await gatewayScene({ broker, ...options })
  cleanups.push(gateway)
  return {
    server,
    login,
    broker,
    gateway,
    ask: (init?: Parameters<GatewayScene['ask']>[2]) => gateway.ask(client.path, client.body, init),
  }
}

const kinds = async (gateway: GatewayScene) =>
  (await gateway.at.store.bodies()).filter(({ kind }) => kind !== 'grant' && kind !== 'environment_decision')
const lastEnd = async (gateway: GatewayScene) =>
  (await kinds(gateway)).findLast(({ kind, phase }) => kind === 'provider_action' && phase === 'end')

test.each(DIALECT_CLIENTS)(
  '%s: a response passes through byte by byte, with the credential added and the client’s removed',
  async (_, client) => {
    const { server, login, gateway, ask } = await scene(client, [HELLO_TEXT])
    const response = await ask({
      headers: {
        authorization: `Bearer ${sentinelOf('sandbox-1', login.id)}`,
        cookie: 'a=b',
        'x-forwarded-for': '1.2.3.4',
        ...(client === ANTHROPIC && { 'anthropic-version': '2023-06-01' }),
      },
    })
    const text = await response.text()
    expect(response.status, text).toBe(200)
    expect(text).toContain('hello there')
    const [seen] = server.requests
    expect(server.requests).toHaveLength(1)
    expect(seen!.invalid).toBeUndefined()
    expect(seen!.rawBody).toBe(JSON.stringify(client.body))
    expect(seen!.headers[client.header]).toContain(REAL_KEY)
    expect(holdsSentinel(seen!)).toBe(false)
    expect(seen!.headers).not.toHaveProperty('cookie')
    expect(seen!.headers).not.toHaveProperty('x-forwarded-for')
    await gateway.gateway.close()
    expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
    const end = await lastEnd(gateway)
    expect(end).toMatchObject({ status: 'passed', links: { sandbox_id: 'sandbox-1' } })
    expect(end!.measures).toContainEqual({ name: 'output_tokens', value: 30, source: 'claimed' })
    expect(end!.measures).toContainEqual({ name: 'input_tokens', value: 120, source: 'claimed' })
    expect(gateway.faults).toEqual([])
  },
)

test.each(DIALECT_CLIENTS)(
  '%s: an output limit that exceeds the budget is lowered, and nothing else is changed',
  async (_, client) => {
    const { server, gateway, ask } = await scene(client, [HELLO_TEXT])
    await tokenBudget(gateway.at, 3000)
    const response = await ask({
      headers: client === ANTHROPIC ? { 'anthropic-version': '2023-06-01' } : {},
    })
    await response.text()
    expect(response.status).toBe(200)
    const [seen] = server.requests
    const cap = Number(client.capOf(seen!.body))
    expect(cap).toBeLessThan(3000)
    expect(seen!.rawBody).toBe(JSON.stringify(client.body).replace('4000', String(cap)))
  },
)

test.each(DIALECT_CLIENTS)(
  '%s: a response that breaks off ends in an error event, a failed receipt and a breaker hit',
  async (_, client) => {
    const { gateway, ask } = await scene(client, [{ kind: 'break', text: 'half an answer' }])
    const response = await ask({ headers: { 'anthropic-version': '2023-06-01' } })
    const text = await response.text()
    expect(text).toContain('half an answer')
    expect(text.slice(text.lastIndexOf('data:'))).toMatch(/craik: .*broke during its response/)
    expect(text).not.toMatch(/message_stop|response\.completed|\[DONE\]|finishReason/)
    await gateway.gateway.close()
    expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
    expect(await lastEnd(gateway)).toMatchObject({ status: 'failed', metadata: { failure: 'broken_stream' } })
    expect(await gateway.at.store.tables.breakers.list()).toMatchObject([{ failures: 1 }])
  },
)

test.each(DIALECT_CLIENTS)(
  '%s: a provider’s error is forwarded in its own words, and costs nothing',
  async (_, client) => {
    const { server, gateway, ask } = await scene(client, [
      {
        kind: 'refuse',
        status: 429,
        message: 'slow down, please',
        headers: { 'retry-after': '7', 'set-cookie': 'a=b' },
      },
    ])
    await tokenBudget(gateway.at, 100_000)
    const response = await ask({ headers: { 'anthropic-version': '2023-06-01' } })
    expect(response.status).toBe(429)
    expect(await response.text()).toContain('slow down, please')
    expect(response.headers.get('retry-after')).toBe('7')
    expect(response.headers.get('set-cookie')).toBeNull()
    expect(server.requests).toHaveLength(1)
    const again = await ask({ headers: { 'anthropic-version': '2023-06-01' } })
    expect(again.status).toBe(503)
    expect(Number(again.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await again.text()).toContain('craik: ')
    expect(server.requests).toHaveLength(1)
    await gateway.gateway.close()
    expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  },
)

test.each(DIALECT_CLIENTS)(
  '%s: without a grant nothing is sent, and the response names the command',
  async (_, client) => {
    const { server, gateway, ask } = await scene(client, [HELLO_TEXT], { grants: [] })
    const response = await ask()
    expect(response.status).toBe(403)
    expect(await response.text()).toMatch(/craik: .*craik grant create/)
    expect(server.requests).toEqual([])
    expect((await kinds(gateway)).at(-1)).toMatchObject({ kind: 'denial' })
  },
)

test('a login that could not be renewed does not count as rejected, nor against its provider', async () => {
  const { server, gateway, broker, ask } = await scene(ANTHROPIC, [HELLO_TEXT])
  broker.isNotRenewed = true
  // More calls than an open breaker would allow.
  for (let i = 0; i < 4; i++) {
    const response = await ask()
    expect(response.status).toBe(502)
    expect(await response.text()).toContain('has expired')
  }
  expect((await kinds(gateway)).at(-1)).toMatchObject({ metadata: { failure: 'unreachable' } })
  expect(server.requests).toEqual([])
  broker.isNotRenewed = false
  expect((await ask({ headers: { 'anthropic-version': '2023-06-01' } })).status).toBe(200)
})

test('after a 401, the gateway fetches a newer credential and retries before it responds', async () => {
  const { server, broker, ask } = await scene(ANTHROPIC, [{ kind: 'refuse', status: 401 }, HELLO_TEXT])
  broker.newer = NEW_KEY
  const response = await ask({ headers: { 'anthropic-version': '2023-06-01' } })
  expect(response.status).toBe(200)
  expect(await response.text()).toContain('hello there')
  expect(server.requests.map(({ headers }) => headers['x-api-key'])).toEqual([REAL_KEY, NEW_KEY])
  expect(broker.refusals).toBe(1)
})

test.each([401, 403])('a %i is answered once, in Craik’s own words', async (status) => {
  const { server, ask } = await scene(ANTHROPIC, [
    { kind: 'refuse', status, message: `not ${REAL_KEY.slice(0, 12)}` },
  ])
  const response = await ask({ headers: { 'anthropic-version': '2023-06-01' } })
  expect(response.status).toBe(status)
  const text = await response.text()
  expect(JSON.parse(text)).toMatchObject({
    type: 'error',
    error: { message: expect.stringContaining('craik: ') },
  })
  expect(text).not.toContain(REAL_KEY.slice(0, 12))
  expect(server.requests).toHaveLength(1)
})

test('an error that repeats the credential is forwarded with the credential masked', async () => {
  const message = `bad key ${REAL_KEY}, but not ${REAL_KEY.slice(0, -1)}`
  const { ask } = await scene(ANTHROPIC, [{ kind: 'refuse', status: 400, message }])
  const response = await ask({ headers: { 'anthropic-version': '2023-06-01' } })
  const output = `bad key ${'x'.repeat(REAL_KEY.length)}, but not ${REAL_KEY.slice(0, -1)}`
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ error: { message: output } })
})

test('an error for a second credential repeats neither of them', async () => {
  const message = `neither ${REAL_KEY} nor ${NEW_KEY}`
  const { broker, ask } = await scene(ANTHROPIC, [
    { kind: 'refuse', status: 401 },
    { kind: 'refuse', status: 400, message },
  ])
  broker.newer = NEW_KEY
  const text = await (await ask({ headers: { 'anthropic-version': '2023-06-01' } })).text()
  expect(text).toMatch(/neither x+ nor x+"/)
})

test('a response that repeats the credential is forwarded with the credential masked, and counts as answered', async () => {
  const { gateway, ask } = await scene(ANTHROPIC, [{ kind: 'text', text: `your key is ${REAL_KEY}` }])
  const text = await (await ask({ headers: { 'anthropic-version': '2023-06-01' } })).text()
  expect(text).not.toContain(REAL_KEY)
  expect(text).toContain(`your key is ${'x'.repeat(REAL_KEY.length)}`)
  expect(await lastEnd(gateway)).toMatchObject({ status: 'passed' })
})

test.each([
  ['another sandbox’s sentinel', sentinelOf('sandbox-2', 'secret/ANTHROPIC_API_KEY')],
  ['the real key', REAL_KEY],
  ['anything else', 'sk-whatever'],
])('%s is refused as a credential: 401 in the dialect, and a receipt', async (_, value) => {
  const { server, gateway, ask } = await scene(ANTHROPIC, [HELLO_TEXT])
  const response = await ask({ headers: { 'x-api-key': value } })
  expect(response.status).toBe(401)
  expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'authentication_error' } })
  expect(server.requests).toEqual([])
  await gateway.gateway.close()
  expect((await kinds(gateway)).at(-1)).toMatchObject({
    kind: 'denial',
    decision: { rule: 'gateway.credential' },
  })
})

test('a key in the query is checked like one in a header, and never forwarded', async () => {
  const { server, login, gateway } = await scene(GEMINI, [HELLO_TEXT])
  const wrong = await gateway.ask(`${GEMINI.path}&key=AIzaWrong`, GEMINI.body)
  expect(wrong.status).toBe(401)
  const right = await gateway.ask(
    `${GEMINI.path}&key=${encodeURIComponent(sentinelOf('sandbox-1', login.id))}`,
    GEMINI.body,
  )
  expect(right.status).toBe(200)
  await right.text()
  expect(server.requests.map(({ path }) => path)).toEqual([
    '/v1beta/models/gemini-x:streamGenerateContent?alt=sse',
  ])
})

test('a client cannot request a response format that the gateway does not read, which would count as the provider’s failure', async () => {
  const { server, gateway } = await scene(GEMINI, [HELLO_TEXT])
  const response = await gateway.ask(
    `${GEMINI.path}&fields=x&%24fields=y&alt=proto&prettyPrint=1`,
    GEMINI.body,
    {
      headers: { accept: 'application/x-protobuf, text/event-stream' },
    },
  )
  expect(response.status).toBe(200)
  await response.text()
  expect(server.requests.map(({ path, headers }) => [path, headers.accept])).toEqual([
    ['/v1beta/models/gemini-x:streamGenerateContent?alt=sse', 'text/event-stream'],
  ])
})

test('a login’s own headers are merged with the client’s', async () => {
  const server = await startAnthropic([HELLO_TEXT], CERTIFICATE)
  cleanups.push(server)
  const broker = new MemoryBroker(
    account({ id: 'claude-code', kind: 'oauth', billing: 'subscription', baseUrl: server.baseUrl }),
  )
  const gateway = await gatewayScene({ broker })
  cleanups.push(gateway)
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'interleaved-thinking' }
  await (await gateway.ask('/v1/messages', ANTHROPIC.body, { headers })).text()
  expect(server.requests[0]!.headers).toMatchObject({
    authorization: `Bearer ${REAL_KEY}`,
    'anthropic-beta': 'interleaved-thinking,oauth-2025-04-20',
  })
})

test('a client that disconnects cancels the provider’s work, and is billed for the part that arrived', async () => {
  const { server, gateway, ask } = await scene(ANTHROPIC, [{ kind: 'hang', text: 'once upon a time' }])
  await tokenBudget(gateway.at, 100_000)
  const controller = new AbortController()
  const response = await ask({ signal: controller.signal, headers: { 'anthropic-version': '2023-06-01' } })
  const reader = response.body!.getReader()
  await reader.read()
  controller.abort()
  await server.hangUp
  await gateway.gateway.close()
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  expect(await lastEnd(gateway)).toMatchObject({ status: 'failed', metadata: { failure: 'cancelled' } })
  expect(await gateway.at.store.tables.breakers.list()).toEqual([])
})

test('a fallback provider of the same dialect responds before the first byte, by rule', async () => {
  const other = await startAnthropic([HELLO_TEXT], CERTIFICATE)
  cleanups.push(other)
  const { server, gateway, ask } = await scene(ANTHROPIC, [{ kind: 'refuse', status: 529 }], {
    keys: { TEAM_API_KEY: 'the-key-of-the-team-0001' },
  })
  gateway.at.addProvider('provider_team', 'anthropic', other.baseUrl)
  gateway.at.configure('failover.json', {
    id: 'failover_team',
    rules: [{ from_provider_id: 'provider_anthropic', to_provider_id: 'provider_team', on: ['overloaded'] }],
  })
  const response = await ask({ headers: { 'anthropic-version': '2023-06-01' } })
  expect(response.status).toBe(200)
  expect(await response.text()).toContain('hello there')
  expect(server.requests).toHaveLength(1)
  expect(other.requests[0]!.headers['x-api-key']).toBe('the-key-of-the-team-0001')
  expect(other.requests[0]!.body.model).toBe('anthropic-model')
  await gateway.gateway.close()
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
})

test('no failover happens after a part of the response was sent', async () => {
  const other = await startAnthropic([HELLO_TEXT], CERTIFICATE)
  cleanups.push(other)
  const { gateway, ask } = await scene(ANTHROPIC, [{ kind: 'break', text: 'half' }], {
    keys: { TEAM_API_KEY: 'the-key-of-the-team-0001' },
  })
  gateway.at.addProvider('provider_team', 'anthropic', other.baseUrl)
  gateway.at.configure('failover.json', {
    id: 'failover_team',
    rules: [
      { from_provider_id: 'provider_anthropic', to_provider_id: 'provider_team', on: ['broken_stream'] },
    ],
  })
  const text = await (await ask({ headers: { 'anthropic-version': '2023-06-01' } })).text()
  expect(text).toContain('event: error')
  expect(other.requests).toEqual([])
})

test('lists the models that the caller can use, in the client’s format', async () => {
  const { gateway } = await scene(ANTHROPIC, [HELLO_TEXT], { grants: ['provider_anthropic'] })
  const port = await gateway.port()
  const openai = await (await fetch(`http://127.0.0.1:${port}/v1/models`)).json()
  expect(openai).toMatchObject({
    object: 'list',
    data: [{ id: 'claude-sonnet-5', owned_by: 'provider_anthropic' }],
  })
  const anthropic = await (
    await fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { 'anthropic-version': '2023-06-01' } })
  ).json()
  expect(anthropic).toMatchObject({ data: [{ type: 'model', id: 'claude-sonnet-5' }], has_more: false })
})

test('a sandbox without credentials gets none added', async () => {
  const { server, gateway, ask } = await scene(ANTHROPIC, [HELLO_TEXT], { credentials: 'none' })
  const response = await ask()
  expect([response.status, await response.text()]).toEqual([
    403,
    expect.stringContaining('--credentials none'),
  ])
  expect(server.requests).toEqual([])
  await gateway.gateway.close()
  expect((await kinds(gateway)).at(-1)).toMatchObject({ decision: { rule: 'gateway.no_credentials' } })
})

test('a sandbox with the real credential can present it, and the newest is sent', async () => {
  const { server, ask } = await scene(ANTHROPIC, [HELLO_TEXT], { credentials: 'forward' })
  const headers = { 'x-api-key': 'an-older-real-key-0000', 'anthropic-version': '2023-06-01' }
  const response = await ask({ headers })
  expect(response.status).toBe(200)
  await response.text()
  expect(server.requests[0]!.headers['x-api-key']).toBe(REAL_KEY)
})

test('a named provider is called with its own family’s login', async () => {
  const server = await CHAT.start([HELLO_TEXT])
  cleanups.push(server)
  const login = account({ id: 'opencode/openrouter', family: 'openrouter', baseUrl: server.baseUrl })
  const gateway = await gatewayScene({ broker: new MemoryBroker(login) })
  cleanups.push(gateway)
  const response = await gateway.ask(`/p/provider_openrouter${CHAT.path}`, CHAT.body)
  expect(response.status).toBe(200)
  await response.text()
  expect(server.requests[0]!.headers.authorization).toBe(`Bearer ${REAL_KEY}`)
  // Another family's login is not used for it.
  const other = await gateway.ask(`/p/provider_kimi${CHAT.path}`, CHAT.body)
  expect(other.status).toBe(401)
  expect(server.requests).toHaveLength(1)
})

test('a login whose address changes during the decision is sent to neither address', async () => {
  const { server, login, broker, gateway, ask } = await scene(ANTHROPIC, [HELLO_TEXT])
  const listed = [login]
  broker.accounts = async () => listed
  broker.list[0] = { ...login, baseUrl: 'https://127.0.0.1:1/v1' }
  const response = await ask()
  expect([response.status, response.headers.get('x-should-retry')]).toEqual([500, 'false'])
  expect(await response.text()).toContain('config/accounts.yaml')
  expect(server.requests).toEqual([])
  await gateway.gateway.close()
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
})
