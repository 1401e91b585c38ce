import { expect, test } from 'vitest'
import { balance, tokenBudget } from '../../../providers/dispatch.fixture.ts'
import { NEW_KEY, REAL_KEY, sentinelOf } from '../../gateway.fixture.ts'
import { CREATE, HELLO_ACT, socketScene } from './socket.fixture.ts'

const PASSED = { status: 'passed', failure: undefined }
const ID = 'secret/OPENAI_API_KEY'

test('a message is sent unchanged, with the credential added, and its events come back one by one', async () => {
  const scene = await socketScene([HELLO_ACT], {
    upgrades: [{ headers: { 'x-codex-turn-state': 'ts', 'set-cookie': 'a=b' } }],
  })
  const headers = {
    authorization: `Bearer ${sentinelOf('sandbox-1', ID)}`,
    'openai-beta': 'responses_websockets=2026-02-06',
    'x-forwarded-for': '10.0.0.1',
    cookie: 'c=d',
    'user-agent': 'codex/1',
  }
  const client = await scene.connect({ headers })
  const down = await client.upgraded
  expect(down).toMatchObject({ 'x-codex-turn-state': 'ts' })
  expect(down).not.toHaveProperty('set-cookie')
  const message = `{ "type":"response.create", "model": "gpt-x", "max_output_tokens": 400, "input": [{"\\u0061": 1.0}] }`
  const events = await client.ask(message)
  expect(events.map(({ type }) => type)).toEqual([
    'response.created',
    'response.output_text.delta',
    'response.completed',
  ])
  expect(scene.server.messages.map(({ raw }) => raw)).toEqual([message])
  const [{ path, headers: up }] = scene.server.upgrades as [(typeof scene.server.upgrades)[number]]
  expect(path).toBe('/v1/responses')
  expect(up).toMatchObject({
    authorization: `Bearer ${REAL_KEY}`,
    'openai-beta': 'responses_websockets=2026-02-06',
    'user-agent': 'codex/1',
  })
  expect(up).not.toHaveProperty('cookie')
  expect(up).not.toHaveProperty('x-forwarded-for')
  expect(up).not.toHaveProperty('sec-websocket-extensions')
  expect(JSON.stringify([scene.server.upgrades, scene.server.messages])).not.toContain('sentinel-')
  expect(await scene.ends()).toEqual([PASSED, PASSED])
  expect(await balance(scene.gateway.at)).toEqual({ spent: 120, held: 0 })
})

test.each([
  ['/p/provider_openai/v1/responses', '/v1/responses'],
  ['/backend-api/codex/responses', '/v1/responses'],
])('%s is served too', async (path, requested) => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect({ path })
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(scene.server.upgrades[0]?.path).toBe(requested)
})

test.each([
  ['a route of another dialect', '/v1/messages'],
  ['a compact request', '/v1/responses/compact'],
  ['an unknown route', '/v1/realtime'],
  ['a provider that speaks another dialect', '/p/provider_anthropic/v1/responses'],
  ['an unknown provider', '/p/provider_nobody/v1/responses'],
])('%s is answered with 426, and no provider is called', async (_, path) => {
  const scene = await socketScene([HELLO_ACT])
  expect(await scene.expectUpgradeRefused({ path })).toMatchObject({ status: 426 })
  expect(scene.server.upgrades).toEqual([])
})

test.each([404, 426, 403, 500])(
  'when a provider answers the upgrade with %i, the client gets 426, on which Codex continues over HTTP',
  async (status) => {
    const scene = await socketScene([HELLO_ACT], { upgrades: [{ status }] })
    expect(await scene.expectUpgradeRefused()).toMatchObject({
      status: 426,
      body: expect.stringContaining(`(${status})`),
    })
    expect((await scene.ends()).map(({ status }) => status)).toEqual(['failed'])
  },
)

test('after a 401 to the upgrade, the gateway fetches a newer credential and retries once', async () => {
  const scene = await socketScene([HELLO_ACT], { upgrades: [{ status: 401 }, 'accept'] })
  scene.broker.newer = NEW_KEY
  const client = await scene.connect()
  await client.ask(CREATE)
  expect(scene.server.upgrades.map(({ headers }) => headers.authorization)).toEqual([
    `Bearer ${REAL_KEY}`,
    `Bearer ${NEW_KEY}`,
  ])
  expect(scene.broker.refusals).toBe(1)
})

test('another sandbox’s credential, or a login that policy does not grant, gets 426 and a receipt, and no provider is called', async () => {
  const scene = await socketScene([HELLO_ACT])
  const headers = { authorization: `Bearer ${sentinelOf('sandbox-2', ID)}` }
  expect(await scene.expectUpgradeRefused({ headers })).toMatchObject({ status: 426 })
  const denied = await socketScene([HELLO_ACT], { grants: [] })
  expect(await denied.expectUpgradeRefused()).toMatchObject({ status: 426 })
  expect([...scene.server.upgrades, ...denied.server.upgrades]).toEqual([])
  expect(await scene.rules()).toEqual(['gateway.credential'])
  expect(await denied.rules()).toHaveLength(1)
})

test('for a message that continues a response, the hold covers the tokens that the provider counted earlier and the bytes of the message', async () => {
  const scene = await socketScene([
    { ...HELLO_ACT, usage: { input: 5000, output: 700 } },
    { kind: 'silence' },
  ])
  const client = await scene.connect()
  const first = await client.ask(CREATE)
  const { id } = first.at(-1)!.response!
  const message = JSON.stringify({ ...CREATE, previous_response_id: id, input: [] })
  client.socket.send(message)
  await expect.poll(() => scene.server.messages.length).toBe(2)
  expect(await balance(scene.gateway.at)).toEqual({ spent: 5700, held: 5700 + message.length + 4000 })
})

test.each([
  ['at zero, when the provider reports no usage for it', undefined, 0],
  ['by its bytes, when the provider does not report its usage', 'none' as const, 1],
])('a warm-up is settled %s, and its bytes count in the next message', async (_, usage, chargedPerByte) => {
  const scene = await socketScene([{ ...HELLO_ACT, ...(usage && { usage }) }, { kind: 'silence' }])
  const client = await scene.connect()
  const warmUp = { ...CREATE, generate: false, instructions: 'x'.repeat(50_000) }
  const { id } = (await client.ask(warmUp)).at(-1)!.response!
  const spent = chargedPerByte * JSON.stringify(warmUp).length
  expect(await balance(scene.gateway.at)).toEqual({ spent, held: 0 })
  client.socket.send(JSON.stringify({ ...CREATE, previous_response_id: id }))
  await expect.poll(() => scene.server.messages.length).toBe(2)
  expect((await balance(scene.gateway.at)).held).toBeGreaterThan(50_000 + 4000)
})

test('a response of another connection is not found, so that the client sends everything again', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  expect(await client.ask({ ...CREATE, previous_response_id: 'resp_of_another' })).toMatchObject([
    { type: 'error', status: 400, error: { code: 'previous_response_not_found' } },
  ])
  expect(scene.server.messages).toEqual([])
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(await scene.rules()).toEqual(['gateway.previous_response'])
})

test('a budget that is exhausted between two messages gives an error with its status, and the connection stays open', async () => {
  const scene = await socketScene([{ ...HELLO_ACT, usage: { input: 8000, output: 500 } }])
  await tokenBudget(scene.gateway.at, 10_000)
  const client = await scene.connect()
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  const refused = await client.ask({ ...CREATE, input: 'x'.repeat(3000) })
  expect(refused).toMatchObject([
    { type: 'error', status: 402, error: { message: expect.stringMatching(/^craik: .*budget/) } },
  ])
  expect(scene.server.messages).toHaveLength(1)
  expect(await client.ask(CREATE)).toMatchObject([
    { type: 'response.created' },
    {},
    { type: 'response.completed' },
  ])
  expect(scene.server.messages[1]?.body.max_output_tokens).toBeLessThan(1500)
})

test('an output limit that exceeds the budget is lowered, and every other byte stays', async () => {
  const scene = await socketScene([HELLO_ACT])
  await tokenBudget(scene.gateway.at, 5000)
  const client = await scene.connect()
  const message = `{"type":"response.create","model":"gpt-x","max_output_tokens":900000,"input":"\\u0061"}`
  await client.ask(message)
  const [{ raw }] = scene.server.messages as [(typeof scene.server.messages)[number]]
  expect(raw.replace(/"max_output_tokens":\d+/, '"max_output_tokens":900000')).toBe(message)
  expect(JSON.parse(raw).max_output_tokens).toBeLessThan(5000)
})

test('messages that arrive together are processed one after the other', async () => {
  const scene = await socketScene([HELLO_ACT, { kind: 'text', text: 'second' }])
  const client = await scene.connect()
  client.socket.send(JSON.stringify(CREATE))
  client.socket.send(JSON.stringify(CREATE))
  const answers = [await client.answer(), await client.answer()]
  expect(answers.map((events) => events.find(({ delta }) => delta)?.delta)).toEqual(['hello there', 'second'])
  expect(await scene.ends()).toHaveLength(3)
})

test('more messages than the queue can hold close the connection', async () => {
  const scene = await socketScene([{ kind: 'silence' }])
  const client = await scene.connect()
  for (let i = 0; i < 20; i++) client.socket.send(JSON.stringify(CREATE))
  expect(await client.answer()).toMatchObject([{ type: 'error', status: 429 }])
  expect(await client.closed).toBe(1008)
  expect(scene.server.messages).toHaveLength(1)
})

test('after a logout, the login is not used again, and its connection is closed', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  await client.ask(CREATE)
  const [login] = scene.broker.list.splice(0)
  expect(await client.ask(CREATE)).toMatchObject([{ type: 'error', status: 401 }])
  await scene.server.hangUp
  expect(scene.server.messages).toHaveLength(1)
  scene.broker.list.push(login!)
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(scene.server.messages[1]?.connection).toBe(2)
})

test('when a login cannot be renewed, the error says so, and does not say that the login was rejected', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  scene.broker.isNotRenewed = true
  expect(await client.ask(CREATE)).toMatchObject([{ type: 'error', status: 502 }])
  scene.broker.isNotRenewed = false
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(await scene.rules()).toEqual(['gateway.login_not_renewed'])
})

test('with a newer credential, the gateway connects to the provider again, and earlier responses are not found', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  const { id } = (await client.ask(CREATE)).at(-1)!.response!
  scene.broker.value = NEW_KEY
  expect(await client.ask({ ...CREATE, previous_response_id: id })).toMatchObject([
    { error: { code: 'previous_response_not_found' } },
  ])
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(scene.server.upgrades.map(({ headers }) => headers.authorization)).toEqual([
    `Bearer ${REAL_KEY}`,
    `Bearer ${NEW_KEY}`,
  ])
})

test('after a provider closes between two messages, the gateway connects to it again', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  await client.ask(CREATE)
  scene.server.dropAll()
  await scene.server.hangUp
  expect((await client.ask(CREATE)).at(-1)).toMatchObject({ type: 'response.completed' })
  expect(scene.server.upgrades).toHaveLength(2)
})

test('an event that a provider sends between two responses is forwarded; an unrequested response is not', async () => {
  const scene = await socketScene([HELLO_ACT])
  const client = await scene.connect()
  await client.ask(CREATE)
  scene.server.say('{"type":"codex.rate_limits","limits":[]}')
  expect(await client.next()).toMatchObject({ type: 'codex.rate_limits' })
  scene.server.say('{"type":"response.output_text.delta","delta":"free of charge"}')
  await scene.server.hangUp
  expect(await client.ask(CREATE)).toMatchObject([{ type: 'response.created' }, {}, {}])
})

test.each([
  ['is called over WebSocket if its record allows WebSocket', { websocket: true }, 1],
  ['gets no WebSocket connection if its record does not mention WebSocket', {}, 0],
])('a provider with its own address %s', async (_, metadata, requestCount) => {
  const scene = await socketScene([HELLO_ACT], { keys: { TEAM_API_KEY: REAL_KEY } })
  scene.gateway.at.configure('providers/provider_team.json', {
    schema: 'craik.model_provider',
    version: '0.1.0',
    id: 'provider_team',
    name: 'Team',
    provider: 'openai',
    modes: ['chat'],
    trust_boundary: 'self-hosted',
    capabilities: [{ name: 'model.chat', mode: 'chat', description: 'answer' }],
    secret_ref_names: ['TEAM_API_KEY'],
    metadata: { base_url: scene.server.baseUrl, default_model: 'gpt-x', ...metadata },
    docs: ['docs/reference/providers.md'],
    created_at: '2026-01-01T00:00:00Z',
  })
  const path = '/p/provider_team/v1/responses'
  if (requestCount === 0) expect(await scene.expectUpgradeRefused({ path })).toMatchObject({ status: 426 })
  else
    expect((await (await scene.connect({ path })).ask(CREATE)).at(-1)).toMatchObject({
      type: 'response.completed',
    })
  expect(scene.server.upgrades).toHaveLength(requestCount)
})

test('an unreachable provider gives 426 and a failed receipt, and does not count for the cooldown', async () => {
  const scene = await socketScene([HELLO_ACT])
  await scene.server[Symbol.asyncDispose]()
  expect(await scene.expectUpgradeRefused()).toMatchObject({
    status: 426,
    body: expect.stringContaining('no connection'),
  })
  expect(await scene.ends()).toEqual([{ status: 'failed', failure: 'unreachable' }])
  expect(await scene.gateway.at.store.tables.breakers.list()).toEqual([])
})

test('a flood of upgrades that policy refuses is counted, and each gets a refusal', async () => {
  const denied = await socketScene([HELLO_ACT], { grants: [] })
  for (let n = 0; n < 100; n++) expect(await denied.expectUpgradeRefused()).toMatchObject({ status: 426 })
  await denied.gateway.gateway.close()
  const reported = (await denied.gateway.at.store.bodies()).filter(({ kind }) => kind === 'denial')
  expect(reported.length).toBeLessThan(60)
  expect(reported.reduce((sum, { metadata }) => sum + Number(metadata?.count ?? 1), 0)).toBe(100)
})
