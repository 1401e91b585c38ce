import { describe, expect, test } from 'vitest'
import { CALL_MS_MAX } from '../adapters/limits.ts'
import { listBudgets } from './budgets-and-quotas.ts'
import { deadOwner, type Ledger, measuredUsage, openLedger, replayAll, USD } from './ledger.fixture.ts'
import { INDETERMINATE_AFTER_MS } from './sweep.ts'

const WORST_NANO_USD = 1000 * 1250 + 2000 * 10_000

async function balance({ store, clock }: Ledger): Promise<readonly number[]> {
  const [budget] = await listBudgets(store, clock.nowMs())
  return [budget!.spent_nano_usd, budget!.held_nano_usd, budget!.spent_tokens, budget!.held_tokens]
}

async function bookWithBudget(): Promise<Ledger> {
  const book = await openLedger()
  await book.budget()
  return book
}

describe('settling', () => {
  test('prices cached tokens separately, and rounds up', async () => {
    const book = await bookWithBudget()
    const usage = {
      source: 'measured',
      inputTokens: 100,
      cacheReadTokens: 50,
      cacheWriteTokens: 30,
      outputTokens: 7,
    } as const
    const cost = 20 * 1000 + 50 * 100 + 30 * 1250 + 7 * 10_000
    expect(await book.settle(await book.admitAllowed(), usage)).toMatchObject({ costNanoUsd: cost })
    const odd = {
      inputNanoUsdPerMtok: 1,
      cacheReadNanoUsdPerMtok: 1,
      cacheWriteNanoUsdPerMtok: 1,
      outputNanoUsdPerMtok: 1,
    }
    expect(await book.settle(await book.admitAllowed({ price: odd }), measuredUsage(1, 0))).toMatchObject({
      costNanoUsd: 1,
    })
  })

  test('books an overrun in full, and flags it', async () => {
    const book = await bookWithBudget()
    const call = await book.admitAllowed()
    expect(await book.settle(call, measuredUsage(1000, 500_000))).toMatchObject({
      costNanoUsd: 1_000_000 + 5 * USD,
      overrun: true,
    })
    expect(await balance(book)).toEqual([5_001_000_000, 0, 501_000, 0])
    expect(await replayAll(book)).toMatchObject({
      differ: [],
      ledger: { budgets: [{ exceeded: { unit: 'nano_usd', by: 3_001_000_000, cause: 'overrun' } }] },
    })
  })

  test('books the whole hold when usage is absent, and records that', async () => {
    const book = await bookWithBudget()
    await book.settle(await book.admitAllowed(), { source: 'absent' })
    expect(await balance(book)).toEqual([WORST_NANO_USD, 0, 3000, 0])
    const settled = (await book.store.bodies()).findLast(({ operation }) => operation === 'settle')
    expect(settled?.metadata).toMatchObject({ usage_source: 'absent', nano_usd: WORST_NANO_USD })
    expect(settled?.metadata).not.toHaveProperty('input_tokens')
  })

  test.each([
    ['negative', measuredUsage(-1, 5)],
    ['fractional', measuredUsage(0.5, 5)],
    ['absurd', measuredUsage(1e15, 5)],
    ['not a number', measuredUsage(Number.NaN, 5)],
  ])('treats counts that are %s as absent', async (_, usage) => {
    const book = await bookWithBudget()
    expect(await book.settle(await book.admitAllowed(), usage)).toMatchObject({ costNanoUsd: WORST_NANO_USD })
    expect(await replayAll(book)).toMatchObject({ differ: [] })
  })

  test('accepts counts of zero', async () => {
    const book = await bookWithBudget()
    expect(await book.settle(await book.admitAllowed(), measuredUsage(0, 0))).toMatchObject({
      costNanoUsd: 0,
    })
    expect(await balance(book)).toEqual([0, 0, 0, 0])
  })

  test('releases the hold when nothing reached the provider', async () => {
    const book = await bookWithBudget()
    expect(await book.settle(await book.admitAllowed(), 'nothing')).toMatchObject({
      costNanoUsd: 0,
      overrun: false,
    })
    expect(await balance(book)).toEqual([0, 0, 0, 0])
    expect((await book.store.bodies()).at(-2)).toMatchObject({ operation: 'release', status: 'passed' })
    expect(await replayAll(book)).toMatchObject({ differ: [] })
  })

  test('fails with a conflict the second time, and changes nothing', async () => {
    const book = await bookWithBudget()
    const call = await book.admitAllowed()
    await book.settle(call, measuredUsage(1, 1))
    const before = await balance(book)
    await expect(book.settle(call, measuredUsage(1, 1))).rejects.toMatchObject({ code: 'conflict' })
    expect(await balance(book)).toEqual(before)
  })

  test('cannot end the receipt of another call', async () => {
    const book = await bookWithBudget()
    const [one, other] = [await book.admitAllowed(), await book.admitAllowed()]
    await expect(book.settle({ ...one, ref: other.ref }, 'nothing')).rejects.toMatchObject({
      code: 'conflict',
    })
    await book.settle(one, 'nothing')
    await book.settle(other, 'nothing')
  })

  test('counts in the window of the hold', async () => {
    const book = await bookWithBudget()
    const call = await book.admitAllowed()
    book.clock.advance(13 * 3600 * 1000)
    await book.settle(call, measuredUsage(1000, 1000))
    expect(await balance(book)).toEqual([0, 0, 0, 0])
    expect(await replayAll(book)).toMatchObject({
      differ: [],
      ledger: { budgets: [{ peak: { nanoUsd: 11_000_000 } }] },
    })
  })

  test('works after its budget was removed, and the spending counts again when the budget is restored', async () => {
    const book = await bookWithBudget()
    const call = await book.admitAllowed()
    await book.removeBudget('budget_provider_openai')
    await book.settle(call, measuredUsage(1000, 1000))
    await book.budget()
    expect(await balance(book)).toEqual([11_000_000, 0, 2000, 0])
    expect(await replayAll(book)).toMatchObject({ differ: [] })
  })
})

describe('a hold whose owner died', () => {
  test('counts as spent after fifteen minutes, not before, with a receipt that its outcome is unknown', async () => {
    const book = await bookWithBudget()
    const call = await book.admitAllowed({}, deadOwner())
    book.clock.advance(INDETERMINATE_AFTER_MS - 1)
    await book.sweep()
    expect(await balance(book)).toEqual([0, WORST_NANO_USD, 0, 3000])
    book.clock.advance(1)
    await book.sweep()
    expect(await balance(book)).toEqual([WORST_NANO_USD, 0, 3000, 0])
    expect((await book.store.bodies()).at(-1)).toMatchObject({
      kind: 'budget',
      operation: 'indeterminate',
      status: 'indeterminate',
      links: { receipt_ids: [call.ref.id] },
    })
    await expect(book.settle(call, measuredUsage(1, 1))).rejects.toMatchObject({ code: 'conflict' })
    expect(await replayAll(book)).toMatchObject({ differ: [] })
  })

  test('is swept when the next call is admitted', async () => {
    const book = await bookWithBudget()
    await book.admitAllowed({}, deadOwner())
    book.clock.advance(INDETERMINATE_AFTER_MS)
    await book.admitAllowed()
    expect(await balance(book)).toEqual([WORST_NANO_USD, WORST_NANO_USD, 3000, 3000])
  })

  test('is not swept while its owner lives', async () => {
    const book = await bookWithBudget()
    await book.admitAllowed()
    book.clock.advance(10 * CALL_MS_MAX)
    await book.sweep()
    const holds = await book.store.tables.holds.listCreatedUntil(book.clock.nowMs())
    expect(holds).toHaveLength(1)
  })
})

describe('a hold of an owner in another pid namespace', () => {
  const elsewhere = { ...deadOwner(), pidNamespace: 'pid:[1]' }

  test('counts as spent, and frees its slot, exactly when no call can still run', async () => {
    const book = await bookWithBudget()
    await book.quota({ concurrent: 1 })
    const call = await book.admitAllowed({}, elsewhere)
    book.clock.advance(CALL_MS_MAX - 1)
    await book.sweep()
    expect(await balance(book)).toEqual([0, WORST_NANO_USD, 0, 3000])
    expect(await book.admit()).toMatchObject({ effect: 'deny', rule: 'quota.concurrent' })
    book.clock.advance(1)
    await book.settle(await book.admitAllowed(), 'nothing')
    expect(await balance(book)).toEqual([WORST_NANO_USD, 0, 3000, 0])
    await expect(book.settle(call, measuredUsage(1, 1))).rejects.toMatchObject({ code: 'conflict' })
    expect(await replayAll(book)).toMatchObject({ differ: [] })
  })
})
