import { expect, test } from 'vitest'
import { startAnthropic } from '../../test/wire/anthropic.ts'
import { startChatCompletions } from '../../test/wire/chat-completions.ts'
import type { Act } from '../../test/wire/wire-server.ts'
import { POLICY_OPERATOR } from '../policy/policy.fixture.ts'
import { replayReadiness } from './dispatch/readiness.ts'
import {
  balance,
  callScene,
  HELLO,
  KEY,
  modelCall,
  PROVIDER,
  TEAM,
  team,
  tokenBudget,
} from './dispatch.fixture.ts'
import { callModel } from './dispatch.ts'
import { setQuota } from './ledger/budgets-and-quotas.ts'

test('the fixture answers, with a begin, a reservation, a settlement and an end on record', async () => {
  await using at = await callScene()
  const outcome = await callModel(at.place, await modelCall(at, { providerId: PROVIDER.fixture }))
  expect(outcome).toMatchObject({
    outcome: 'answered',
    providerId: PROVIDER.fixture,
    model: 'fixture-1',
    stopReason: 'end',
    costNanoUsd: 0,
    usage: { source: 'measured' },
  })
  const bodies = await at.receiptsOf(outcome)
  expect(bodies.map(({ kind, phase, status }) => [kind, phase, status])).toEqual([
    ['provider_action', 'begin', undefined],
    ['budget', 'point', 'passed'],
    ['budget', 'point', 'passed'],
    ['provider_action', 'end', 'passed'],
  ])
  expect(bodies.at(-1)).toMatchObject({
    id: outcome.receiptId,
    target: PROVIDER.fixture,
    links: {
      provider_id: PROVIDER.fixture,
      policy_envelope_id: 'policy_team',
      session_id: 'session-1',
      task_id: 'task-1',
      run_id: 'run-1',
      handoff_id: 'handoff-1',
      provider_result_count: 1,
      grant_outcome: 'usable',
    },
    metadata: { stop_reason: 'end', tool_calls: 0 },
  })
})

test("the fixture transport uses the provider's own record and limits, reads no secret and dials nothing", async () => {
  await using at = await callScene({})
  await setQuota(
    at.store,
    {
      scope_kind: 'provider',
      scope_ref: PROVIDER.openai,
      requests_per_minute: 1,
      tokens_per_minute: null,
      concurrent: null,
    },
    POLICY_OPERATOR,
  )
  const call = await modelCall(at, { providerId: PROVIDER.openai, transport: 'fixture' })
  const first = await callModel(at.place, call)
  expect(first).toMatchObject({ outcome: 'answered', providerId: PROVIDER.openai, costNanoUsd: 0 })
  expect((await at.receiptsOf(first))[0]?.metadata).toMatchObject({
    transport: 'fixture',
    dialect: 'fixture',
  })
  expect(await callModel(at.place, call)).toMatchObject({
    outcome: 'denied',
    by: 'quota',
    rule: 'quota.requests_per_minute',
    retryAtMs: at.clock.nowMs() + 60_000,
  })
  expect(at.credentials).toEqual([])
})

test('a live answer: text as it comes, tool calls, the key on the wire and wiped afterwards', async () => {
  await using run = await team({
    kind: 'tool_call',
    text: 'let me look',
    name: 'run_command',
    arguments: { command_ref: 'x' },
  })
  const heard: string[] = []
  const outcome = await run.call({ onText: (text) => void heard.push(text) })
  expect(outcome).toMatchObject({
    outcome: 'answered',
    model: 'openai-model',
    text: 'let me look',
    toolCalls: [{ name: 'run_command', arguments: { command_ref: 'x' } }],
    stopReason: 'tool_calls',
    usage: { source: 'measured', inputTokens: 120, outputTokens: 30 },
    costNanoUsd: null,
  })
  expect(heard.join('')).toBe('let me look')
  expect(run.server.requests[0]).toMatchObject({
    invalid: undefined,
    headers: { authorization: `Bearer ${KEY}` },
    body: { max_tokens: 2000, model: 'openai-model' },
  })
  expect(run.at.credentials.map((buffer) => buffer.every((byte) => byte === 0))).toEqual([true])
  expect((await run.at.receiptsOf(outcome)).at(-1)?.measures).toEqual(
    expect.arrayContaining([
      { name: 'input_tokens', value: 120, source: 'claimed' },
      { name: 'answer_bytes', value: expect.any(Number), source: 'observed' },
    ]),
  )
})

test('a local model is not called until it is switched on', async () => {
  await using at = await callScene()
  await using server = await startChatCompletions([HELLO], { key: false })
  const call = await modelCall(at, { providerId: PROVIDER.ollama })
  const denied = await callModel(at.place, call)
  expect(denied).toMatchObject({
    outcome: 'denied',
    by: 'provider',
    rule: 'provider.not_enabled',
    hint: 'enable the provider:  craik provider enable provider_local_ollama',
  })
  const [denial, ...more] = await at.receiptsOf(denied)
  expect([denial?.kind, denial?.status, more]).toEqual(['denial', 'blocked', []])
  expect(await replayReadiness(denial!)).toBe('agrees')
  const forged = { ...denial!, decision: { ...denial!.decision!, rule: 'provider.mode' } }
  expect(await replayReadiness(forged)).toBe('differs')
  await at.enable(PROVIDER.ollama, server.baseUrl)
  expect(await callModel(at.place, call)).toMatchObject({
    outcome: 'answered',
    text: 'hello',
    model: 'llama3.2',
    costNanoUsd: 0,
  })
  expect(server.requests).toHaveLength(1)
})

test('without a grant nothing is sent, nothing is held, and the denial says what to type', async () => {
  await using run = await team(HELLO)
  await tokenBudget(run.at, 10_000)
  const outcome = await run.call({ grantFor: async () => undefined })
  expect(outcome).toMatchObject({
    outcome: 'denied',
    by: 'policy',
    hint: expect.stringContaining('craik grant create'),
  })
  expect(run.server.requests).toEqual([])
  expect(run.at.credentials).toEqual([])
  expect(await balance(run.at)).toEqual({ spent: 0, held: 0 })
})

test('a provider without the chat mode is refused by its record', async () => {
  await using at = await callScene()
  at.addProvider(TEAM, 'openai', 'http://127.0.0.1:9/v1')
  at.configure('providers/embed.json', {
    schema: 'craik.model_provider',
    version: '0.1.0',
    id: 'provider_embed',
    name: 'embeddings',
    provider: 'openai',
    modes: ['embedding'],
    capabilities: [{ name: 'model.usage_metadata', mode: 'embedding', description: 'counts' }],
    trust_boundary: 'hosted',
    docs: ['docs/reference/providers.md'],
    created_at: '2026-01-01T00:00:00Z',
  })
  const outcome = await callModel(at.place, await modelCall(at, { providerId: 'provider_embed' }))
  expect(outcome).toMatchObject({ outcome: 'denied', by: 'provider', rule: 'provider.mode' })
})

test('a dialect that insists on a cap gets one although nobody asked for any', async () => {
  await using at = await callScene()
  await using server = await startAnthropic([HELLO])
  at.addProvider('provider_claude', 'anthropic', server.baseUrl)
  const { maxOutputTokens: _, ...call } = await modelCall(at, { providerId: 'provider_claude' })
  expect(await callModel(at.place, call)).toMatchObject({ outcome: 'answered', text: 'hello' })
  expect(server.requests[0]?.body.max_tokens).toBe(32_000)
})

test('a call that is cancelled before it begins asks for nothing and is on record as skipped', async () => {
  await using run = await team(HELLO)
  const outcome = await run.call({ signal: AbortSignal.abort() })
  expect(outcome).toMatchObject({ outcome: 'failed', failure: 'cancelled' })
  expect((await run.at.receiptsOf(outcome)).map(({ kind, status }) => [kind, status])).toEqual([
    ['provider_action', 'skipped'],
  ])
  expect(run.server.requests).toEqual([])
})

test('a provider that repeats the key in its error finds it in no receipt and no reason', async () => {
  await using run = await team({ kind: 'refuse', status: 401, message: `bad key ${KEY}, go away` })
  const outcome = await run.call()
  expect(outcome).toMatchObject({ outcome: 'failed', failure: 'unauthorized' })
  const everything = JSON.stringify([outcome, await run.at.store.bodies()])
  expect(everything).not.toContain(KEY)
  expect(everything).not.toContain(KEY.slice(4, 16))
})

test.each<[string, Act]>([
  ['in its answer', { kind: 'text', text: `your key is ${KEY}.` }],
  ['in base64', { kind: 'text', text: Buffer.from(KEY).toString('base64') }],
  ['as a command to run', { kind: 'tool_call', name: 'run_command', arguments: { command_ref: KEY } }],
  ['as the name of a tool', { kind: 'tool_call', name: KEY, arguments: {} }],
])('a provider that repeats the key %s has answered, and the key is nowhere', async (_, act) => {
  await using run = await team(act)
  const shown: string[] = []
  const outcome = await run.call({ onText: (text) => shown.push(text) })
  expect(outcome).toMatchObject({ outcome: 'answered' })
  const everything = JSON.stringify([outcome, shown.join(''), await run.at.store.bodies()])
  expect(everything).toContain('x'.repeat(16))
  expect(everything).not.toContain(KEY.slice(0, 16))
  expect(everything).not.toContain(Buffer.from(KEY).toString('base64').slice(0, 16))
})

test('a setting that was tampered with does not lead a local provider off this machine', async () => {
  await using at = await callScene()
  await at.enable(PROVIDER.ollama, 'http://localhost:11434/v1')
  const row = await at.store.tables.providerSettings.get(PROVIDER.ollama)
  await at.store.tables.providerSettings.put({ ...row!, baseUrl: 'http://192.168.0.7:11434/v1' })
  const call = callModel(at.place, await modelCall(at, { providerId: PROVIDER.ollama }))
  await expect(call).rejects.toMatchObject({ code: 'invalid_config' })
})

test('a failover policy that does not parse is found before anything is asked or sent', async () => {
  await using run = await team(HELLO)
  run.at.configure('failover.json', { id: 'failover_team', rules: [{ from_provider_id: 'x' }] })
  await expect(run.call()).rejects.toMatchObject({ code: 'invalid_config' })
  expect(run.server.requests).toEqual([])
})
