import { describe, expect, test } from 'vitest'
import { POLICY_OPERATOR } from '../../policy/policy.fixture.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { listBudgets } from './budgets-and-quotas.ts'
import {
  deadOwner,
  LEDGER_PROVIDER,
  type Ledger,
  measuredUsage,
  openLedger,
  replayAll,
  USD,
} from './ledger.fixture.ts'

const WORST_NANO_USD = 1000 * 1250 + 2000 * 10_000

async function balances({ store, clock }: Ledger) {
  const budgets = await listBudgets(store, clock.nowMs())
  return Object.fromEntries(
    budgets.map(({ budget_id, spent_nano_usd, held_nano_usd, spent_tokens, held_tokens }) => [
      budget_id,
      [spent_nano_usd, held_nano_usd, spent_tokens, held_tokens],
    ]),
  )
}

async function lastBody({ store }: Ledger): Promise<Receipt['body']> {
  return (await store.bodies()).at(-1)!
}

test('holds the worst case in every budget that applies, and settles to the reported usage', async () => {
  const book = await openLedger()
  await book.budget()
  await book.budget({ scope_kind: 'session', scope_ref: 'agent_1', period: 'life' })
  await book.budget({ scope_kind: 'session', scope_ref: 'agent_2', period: 'life' })
  await book.budget({ scope_kind: 'operator', scope_ref: POLICY_OPERATOR, period: 'week' })
  await book.budget({ scope_kind: 'sandbox', scope_ref: 'sbx_1', period: 'month' })
  await book.budget({ scope_kind: 'total', scope_ref: null, period: 'month' })
  const call = await book.admitAllowed({ sandboxId: 'sbx_1' })
  const held = [0, WORST_NANO_USD, 0, 3000]
  expect(await balances(book)).toEqual({
    [`budget_operator_${POLICY_OPERATOR}`]: held,
    budget_provider_openai: held,
    budget_sandbox_sbx_1: held,
    budget_session_agent_1: held,
    budget_session_agent_2: [0, 0, 0, 0],
    budget_total: held,
  })
  expect(call.hold).toMatchObject({ maxOutputTokens: 2000, lowered: false })
  expect(await book.settle(call, measuredUsage(200, 100))).toMatchObject({
    costNanoUsd: 1_200_000,
    overrun: false,
  })
  const { budget_session_agent_2: other, ...ours } = await balances(book)
  expect(other).toEqual([0, 0, 0, 0])
  for (const balance of Object.values(ours)) expect(balance).toEqual([1_200_000, 0, 300, 0])
  expect(await replayAll(book)).toMatchObject({ differ: [] })
})

test('writes the begin, the reservation, the settlement and the end, each linked to the begin', async () => {
  const book = await openLedger()
  await book.budget()
  const call = await book.admitAllowed()
  const { ref, budgetReceipt } = (await book.settle(call, measuredUsage(1, 1))) as never as {
    ref: { id: string }
    budgetReceipt: { id: string }
  }
  const [begin, reserve, settle, end] = (await book.store.bodies()).slice(-4)
  expect(begin).toMatchObject({ id: call.ref.id, kind: 'provider_action', phase: 'begin' })
  expect(reserve).toMatchObject({
    id: call.budgetReceipt.id,
    kind: 'budget',
    capability: 'budget.reserve',
    operation: 'reserve',
    status: 'passed',
    links: { provider_id: LEDGER_PROVIDER, session_id: 'agent_1', receipt_ids: [call.ref.id] },
    decision: { effect: 'allow', rule: 'budget.fits', replayable: true },
  })
  expect(settle).toMatchObject({
    id: budgetReceipt.id,
    operation: 'settle',
    links: { receipt_ids: [call.ref.id] },
    metadata: { usage_source: 'measured', input_tokens: 1, output_tokens: 1, overrun: false },
  })
  expect(end).toMatchObject({ id: ref.id, phase: 'end', begin_id: call.ref.id, status: 'passed' })
  for (const body of [reserve, settle]) expect(body?.redacted_fields).toBeUndefined()
})

test('records the digest of the price table in the decision', async () => {
  const book = await openLedger()
  const priceDigest = `sha256:${'a'.repeat(64)}`
  await book.admitAllowed({ priceDigest })
  expect((await lastBody(book)).decision).toMatchObject({ price_digest: priceDigest })
})

describe('policy', () => {
  test('denies first: no limit is checked, and one denial is written', async () => {
    const book = await openLedger(null)
    await book.budget({ limit_nano_usd: 0 })
    const before = (await book.store.bodies()).length
    expect(await book.admit()).toMatchObject({ effect: 'deny', by: 'policy' })
    expect((await book.store.bodies()).slice(before)).toMatchObject([{ kind: 'denial', status: 'denied' }])
  })

  test('does not spend a use of the grant on a call that a budget or a quota denies', async () => {
    const book = await openLedger(1)
    const id = await book.budget({ limit_nano_usd: 0 })
    const before = (await book.store.bodies()).length
    expect(await book.admit()).toMatchObject({ effect: 'deny', by: 'budget', rule: 'budget.exhausted' })
    expect((await book.store.bodies()).slice(before)).toMatchObject([
      {
        kind: 'budget',
        capability: 'budget.reserve',
        status: 'denied',
        decision: { effect: 'deny', rule: 'budget.exhausted' },
        metadata: { subject: id },
      },
    ])
    await book.budget({ limit_nano_usd: 2 * USD })
    await book.quota({ requests_per_minute: 0 })
    expect(await book.admit()).toMatchObject({ by: 'quota' })
    await book.quota({ requests_per_minute: 5 })
    expect(await book.admit()).toMatchObject({ effect: 'allow' })
    expect(await book.admit()).toMatchObject({ effect: 'deny', by: 'policy' })
  })

  test('cannot be evaluated for one provider and used for another', async () => {
    const book = await openLedger()
    await expect(
      book.admit({ providerId: 'provider_other' }, undefined, undefined, LEDGER_PROVIDER),
    ).rejects.toThrow(/was requested as/)
  })
})

describe('the output limit', () => {
  test('is lowered to fit all budgets, and the receipt records it', async () => {
    const book = await openLedger()
    await book.budget()
    await book.budget({ scope_kind: 'total', scope_ref: null, limit_nano_usd: USD })
    const { hold } = await book.admitAllowed({ maxOutputTokens: 128_000 })
    expect(hold).toMatchObject({ maxOutputTokens: 99_875, lowered: true })
    expect((await lastBody(book)).metadata).toMatchObject({ max_output_tokens: 99_875, lowered: true })
    expect((await balances(book)).budget_total).toEqual([0, USD, 0, 100_875])
  })

  test('is lowered for token budgets as well', async () => {
    const book = await openLedger()
    await book.budget({ limit_nano_usd: null, limit_tokens: 5000 })
    expect((await book.admitAllowed({ maxOutputTokens: 128_000 })).hold.maxOutputTokens).toBe(4000)
  })

  test('is set when the request has none, and stays unset when no budget applies', async () => {
    const book = await openLedger()
    expect((await book.admitAllowed({ maxOutputTokens: null })).hold).toMatchObject({
      maxOutputTokens: null,
      lowered: false,
    })
    await book.budget({ limit_nano_usd: 100 * USD })
    expect((await book.admitAllowed({ maxOutputTokens: null })).hold).toMatchObject({
      maxOutputTokens: 32_000,
      lowered: true,
    })
  })

  test('below 1,024 tokens is a denial, unless the request asks for less and it fits', async () => {
    const book = await openLedger()
    const limit = 1000 * 1250 + 1023 * 10_000
    await book.budget({ limit_nano_usd: limit })
    expect(await book.admit({ maxOutputTokens: 2000 })).toMatchObject({ rule: 'budget.exhausted' })
    expect(await book.admit({ maxOutputTokens: null })).toMatchObject({ rule: 'budget.exhausted' })
    expect((await book.admitAllowed({ maxOutputTokens: 1023 })).hold).toMatchObject({
      maxOutputTokens: 1023,
      lowered: false,
    })
    expect((await balances(book)).budget_provider_openai).toEqual([0, limit, 0, 2023])
    expect(await replayAll(book)).toMatchObject({ differ: [] })
  })

  test('is a denial when it is needed and cannot be set', async () => {
    const book = await openLedger()
    await book.budget()
    const fixed = { capCanBeSet: false }
    expect(await book.admit({ ...fixed, maxOutputTokens: null })).toMatchObject({ rule: 'budget.uncapped' })
    expect(await book.admit({ ...fixed, maxOutputTokens: 1e6 })).toMatchObject({ rule: 'budget.uncapped' })
    expect((await book.admitAllowed({ ...fixed, maxOutputTokens: 2000 })).hold.lowered).toBe(false)
  })
})

describe('a call without a known price', () => {
  test('is not free: a dollar limit denies it, unless the budget allows unpriced calls', async () => {
    const book = await openLedger()
    await book.budget({ limit_tokens: 10_000 })
    expect(await book.admit({ price: null })).toMatchObject({
      by: 'budget',
      rule: 'budget.unpriced',
      reason: 'the price of gpt-test is unknown, and budget_provider_openai limits dollars',
      hint: 'allow calls with an unknown price:  craik budget set --id budget_provider_openai --provider provider_openai --limit 2.00usd --tokens 10000 --per day --allow-unpriced',
    })
    await book.budget({ limit_tokens: 10_000, allow_unpriced: true })
    const call = await book.admitAllowed({ price: null })
    expect(await book.settle(call, measuredUsage(10, 20))).toMatchObject({
      costNanoUsd: null,
      overrun: false,
    })
    expect((await balances(book)).budget_provider_openai).toEqual([0, 0, 30, 0])
  })

  test('passes when only tokens are limited', async () => {
    const book = await openLedger()
    await book.budget({ limit_nano_usd: null, limit_tokens: 10_000 })
    expect(await book.admit({ price: null })).toMatchObject({ effect: 'allow' })
  })
})

test('costs zero when it is free, even when the dollars are exhausted', async () => {
  const book = await openLedger()
  await book.budget({ limit_nano_usd: 0 })
  const call = await book.admitAllowed({ billing: 'free', price: null })
  expect(await book.settle(call, measuredUsage(10, 20))).toMatchObject({ costNanoUsd: 0 })
})

test('counts as tokens, not as dollars, on a subscription', async () => {
  const book = await openLedger()
  await book.budget({ limit_nano_usd: 0, limit_tokens: 4000 })
  const call = await book.admitAllowed({ billing: 'subscription', price: null, maxOutputTokens: 128_000 })
  expect(call.hold.maxOutputTokens).toBe(3000)
  expect(await book.settle(call, measuredUsage(10, 20))).toMatchObject({ costNanoUsd: null })
  expect((await balances(book)).budget_provider_openai).toEqual([0, 0, 30, 0])
})

describe('an exhausted budget', () => {
  test('reports the remaining and the held amount, and the end of its window', async () => {
    const book = await openLedger()
    await book.budget({ limit_nano_usd: 30_000_000 })
    await book.admitAllowed()
    expect(await book.admit()).toMatchObject({
      rule: 'budget.exhausted',
      subject: 'budget_provider_openai',
      reason:
        'budget_provider_openai has $0.00875 left of $0.03 per day, and this call needs $0.01149; $0.02125 is held by 1 running call; try again when it ends',
      hint: 'try again when the running calls end; show what they hold:  craik budget show budget_provider_openai',
      retryAtMs: Date.parse('2026-03-02T00:00:00Z'),
    })
    book.clock.advance(12 * 3600 * 1000)
    expect(await book.admit()).toMatchObject({ effect: 'allow' })
  })

  test('counts the calls that hold the missing amount, in either unit', async () => {
    const book = await openLedger()
    await book.budget({ limit_nano_usd: null, limit_tokens: 7000 })
    await book.admitAllowed()
    await book.admitAllowed()
    expect(await book.admit({ maxOutputTokens: null })).toMatchObject({
      reason:
        'budget_provider_openai has 1,000 tokens left of 7,000 tokens per day, and this call needs 2,024 tokens; 6,000 tokens are held by 2 running calls; try again when they end',
    })
  })

  test('does not suggest waiting for calls of dead processes, or when waiting would not help', async () => {
    const book = await openLedger()
    await book.budget({ limit_nano_usd: null, limit_tokens: 6000 })
    const dead = deadOwner()
    await book.admitAllowed({}, dead)
    const running = await book.admitAllowed({ maxOutputTokens: 1500 })
    expect(await book.admit()).toMatchObject({
      reason: expect.stringMatching(
        /5,500 tokens are held by 1 running call and 1 call whose process died; try again when they end$/,
      ),
    })
    await book.settle(running, measuredUsage(1000, 1500))
    expect(await book.admit()).toMatchObject({
      reason: expect.stringMatching(
        /3,000 tokens are held by 1 call whose process died; available again at 2026-03-02/,
      ),
      hint: 'show what is left:  craik budget show',
    })
    await book.budget({ limit_nano_usd: null, limit_tokens: 4000 })
    book.clock.advance(86_400_000)
    await book.settle(await book.admitAllowed(), measuredUsage(1000, 1000))
    await book.admitAllowed({ inputBytes: 100, maxOutputTokens: 100 })
    expect(await book.admit({ inputBytes: 2000 })).toMatchObject({
      reason: expect.stringMatching(/200 tokens are held by 1 running call; available again at/),
      hint: 'show what is left:  craik budget show',
    })
  })

  test('promises nothing when an empty window would be too small as well', async () => {
    const book = await openLedger()
    await book.budget({ limit_nano_usd: 1000 })
    expect(await book.admit()).not.toHaveProperty('retryAtMs')
  })
})

test.each([
  ['more input than a request can have', { inputBytes: 2 ** 40 }],
  ['half a token', { inputBytes: 0.5 }],
  ['no output at all', { maxOutputTokens: 0 }],
  [
    'a price that is no price',
    {
      price: {
        inputNanoUsdPerMtok: -1,
        cacheReadNanoUsdPerMtok: 0,
        cacheWriteNanoUsdPerMtok: 0,
        outputNanoUsdPerMtok: 0,
      },
    },
  ],
])('refuses %s', async (_, call) => {
  const book = await openLedger()
  await expect(book.admit(call)).rejects.toMatchObject({ code: 'usage' })
})
