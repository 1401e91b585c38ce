import { expect, test } from 'vitest'
import type { Act } from '../../../test/wire/wire-server.ts'
import { POLICY_OPERATOR } from '../../policy/policy.fixture.ts'
import {
  balance,
  type CallScene,
  callScene,
  HELLO,
  modelCall,
  PROVIDER,
  TEAM,
  team,
  tokenBudget,
} from '../dispatch.fixture.ts'
import { callModel } from '../dispatch.ts'
import { listBudgets, setBudget } from '../ledger/budgets-and-quotas.ts'

test('a missing secret: the hold is released, the receipt says failed, the hint says how to bind it', async () => {
  await using run = await team(HELLO)
  await tokenBudget(run.at, 10_000)
  await using keyless = await callScene({})
  const place = { ...run.at.place, credential: keyless.place.credential }
  const outcome = await callModel(place, await modelCall(run.at, { providerId: TEAM }))
  expect(outcome).toMatchObject({
    outcome: 'failed',
    failure: 'unauthorized',
    reason: 'unknown secret TEAM_API_KEY',
    hint: expect.stringContaining('craik secret bind TEAM_API_KEY --env TEAM_API_KEY'),
  })
  expect(await balance(run.at)).toEqual({ spent: 0, held: 0 })
  expect((await run.at.receiptsOf(outcome)).at(-1)).toMatchObject({
    phase: 'end',
    status: 'failed',
    metadata: { failure: 'unauthorized' },
  })
  expect(run.server.requests).toEqual([])
})

test('an unknown price is not free: a dollar budget denies the call', async () => {
  await using run = await team(HELLO)
  await dollarBudget(run.at)
  expect(await run.call()).toMatchObject({
    outcome: 'denied',
    by: 'budget',
    rule: 'budget.unpriced',
    hint: expect.stringMatching(/ {2}craik budget set --id \S+ .*--allow-unpriced$/),
  })
  expect(run.server.requests).toEqual([])
})

test('a hosted model is held at its price, which the receipt pins by digest', async () => {
  await using at = await callScene({})
  await dollarBudget(at)
  const outcome = await callModel(at.place, await modelCall(at, { providerId: PROVIDER.openai }))
  expect(outcome).toMatchObject({ outcome: 'failed', failure: 'unauthorized' })
  const [, reservation] = await at.receiptsOf(outcome)
  expect(reservation).toMatchObject({
    decision: { effect: 'allow', price_digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
    metadata: { nano_usd: expect.any(Number) },
  })
  expect(Number(reservation?.metadata?.nano_usd)).toBeGreaterThan(0)
  expect(await listBudgets(at.store, at.clock.nowMs())).toMatchObject([
    { spent_nano_usd: 0, held_nano_usd: 0 },
  ])
})

test('the cap that a budget leaves room for is the one that goes over the wire', async () => {
  await using run = await team(HELLO)
  await tokenBudget(run.at, 5000)
  const outcome = await run.call({ maxOutputTokens: 128_000 })
  const sent = run.server.requests[0]!
  const [, reservation] = await run.at.receiptsOf(outcome)
  expect(reservation?.metadata).toMatchObject({ lowered: true, max_output_tokens: sent.body.max_tokens })
  expect(sent.body.max_tokens).toBeLessThan(5000)
  expect(sent.body.max_tokens + Buffer.byteLength(sent.rawBody)).toBeLessThanOrEqual(5000)
  expect(await balance(run.at)).toEqual({ spent: 150, held: 0 })
})

test('a missing cap is set where a budget applies, and the body still fits what was held', async () => {
  await using run = await team(HELLO)
  await tokenBudget(run.at, 5000)
  const { maxOutputTokens: _, ...call } = await modelCall(run.at, { providerId: TEAM })
  expect(await callModel(run.at.place, call)).toMatchObject({ outcome: 'answered' })
  const sent = run.server.requests[0]!
  expect(sent.body.max_tokens + Buffer.byteLength(sent.rawBody)).toBeLessThanOrEqual(5000)
})

test.each<[string, Act, string]>([
  ['a rate limit', { kind: 'refuse', status: 429 }, 'rate_limited'],
  ['a server error', { kind: 'refuse', status: 500 }, 'server_error'],
  ['a redirect', { kind: 'redirect', location: 'http://127.0.0.1:1/' }, 'rejected'],
])('%s costs nothing: the hold is released', async (_what, act, failure) => {
  await using run = await team(act)
  await tokenBudget(run.at, 10_000)
  const outcome = await run.call()
  expect(outcome).toMatchObject({ outcome: 'failed', failure })
  expect(await balance(run.at)).toEqual({ spent: 0, held: 0 })
  expect((await run.at.receiptsOf(outcome)).at(-1)).toMatchObject({
    status: 'failed',
    links: { provider_result_count: 0 },
    metadata: { failure },
  })
})

test.each<[string, Act]>([
  ['breaks', { kind: 'break', text: 'half an answer' }],
  ['ends with an error', { kind: 'error_event', text: 'half an answer', message: 'oops' }],
  ['is cut', { kind: 'cut', text: 'half an answer' }],
])('a stream that %s is booked by the bytes that went each way', async (_what, act) => {
  await using run = await team(act)
  await tokenBudget(run.at, 10_000)
  const outcome = await run.call()
  expect(outcome.outcome).toBe('failed')
  const sentBytes = Buffer.byteLength(run.server.requests[0]!.rawBody)
  expect(await balance(run.at)).toEqual({ spent: sentBytes + 5, held: 0 })
  const settlement = (await run.at.receiptsOf(outcome)).find(({ operation }) => operation === 'settle')
  expect(settlement?.metadata).toMatchObject({ usage_source: 'estimated' })
})

test('a call that is cancelled after minutes, with a few words to show for it, is booked by the minutes', async () => {
  await using run = await team({ kind: 'hang', text: 'once upon a time there was' })
  await tokenBudget(run.at, 10_000)
  const controller = new AbortController()
  const onText = () => {
    run.at.clock.advance(600_000)
    controller.abort()
  }
  expect(await run.call({ signal: controller.signal, onText })).toMatchObject({ failure: 'cancelled' })
  const sentBytes = Buffer.byteLength(run.server.requests[0]!.rawBody)
  expect(await balance(run.at)).toEqual({ spent: sentBytes + 2000, held: 0 })
})

test('an answer whose provider counted no input is booked at its whole hold', async () => {
  await using run = await team({ ...HELLO, usage: { input: 0, cacheRead: 0, output: 0 } })
  await tokenBudget(run.at, 10_000)
  expect(await run.call()).toMatchObject({ outcome: 'answered', usage: { source: 'absent' } })
  expect((await balance(run.at)).spent).toBe(2000 + Buffer.byteLength(run.server.requests[0]!.rawBody))
})

test('an answer without counts is booked at its whole hold, and says so', async () => {
  await using run = await team({ ...HELLO, usage: 'none' })
  await tokenBudget(run.at, 10_000)
  const outcome = await run.call()
  expect(outcome).toMatchObject({ outcome: 'answered', usage: { source: 'absent' } })
  expect((await balance(run.at)).spent).toBe(2000 + Buffer.byteLength(run.server.requests[0]!.rawBody))
})

test('a call that is cancelled in the middle closes the connection and is settled', async () => {
  await using run = await team({ kind: 'hang', text: 'once upon a time there was' })
  await tokenBudget(run.at, 10_000)
  const controller = new AbortController()
  const outcome = await run.call({ signal: controller.signal, onText: () => controller.abort() })
  expect(outcome).toMatchObject({ outcome: 'failed', failure: 'cancelled' })
  await run.server.hangUp
  const { spent, held } = await balance(run.at)
  expect(held).toBe(0)
  expect(spent).toBeGreaterThan(0)
  expect(await run.at.store.tables.breakers.list()).toEqual([])
  expect(await run.at.store.tables.openReceipts.list()).toEqual([])
})

test('what the taker of the text throws comes out again, after the call is settled', async () => {
  await using run = await team(HELLO)
  await tokenBudget(run.at, 10_000)
  const call = run.call({
    onText() {
      throw new Error('the screen is gone')
    },
  })
  await expect(call).rejects.toThrow('the screen is gone')
  expect((await balance(run.at)).held).toBe(0)
  expect(await run.at.store.tables.openReceipts.list()).toEqual([])
})

function dollarBudget(at: CallScene) {
  const terms = {
    scope_kind: 'total',
    scope_ref: null,
    period: 'day',
    limit_nano_usd: 2_000_000_000,
    limit_tokens: null,
    allow_unpriced: false,
  }
  return setBudget(at.store, terms, POLICY_OPERATOR)
}
