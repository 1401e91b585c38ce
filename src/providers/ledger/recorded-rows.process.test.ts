import { describe, expect, test } from 'vitest'
import { deadOwner, type Ledger, measuredUsage, openLedger, replayAll, USD } from './ledger.fixture.ts'
import { compareRows } from './recorded-rows.ts'
import { INDETERMINATE_AFTER_MS } from './sweep.ts'

/** Returns a ledger with spent, held, removed, swept and overrun amounts in two windows. */
async function busyLedger(): Promise<Ledger> {
  const book = await openLedger()
  await book.budget({ limit_tokens: 500_000 })
  await book.budget({ scope_kind: 'total', scope_ref: null, period: 'life' })
  await book.budget({ scope_kind: 'session', scope_ref: 'agent_9' })
  await book.removeBudget('budget_session_agent_9')
  await book.settle(await book.admitAllowed(), measuredUsage(900, 1500))
  await book.settle(await book.admitAllowed(), 'nothing')
  await book.settle(await book.admitAllowed(), measuredUsage(1000, 50_000))
  await book.admitAllowed({}, deadOwner())
  book.clock.advance(INDETERMINATE_AFTER_MS)
  await book.admitAllowed()
  book.clock.advance(86_400_000)
  await book.admitAllowed({ model: `sk-${'a1B2'.repeat(10)}` })
  return book
}

async function check(book: Ledger) {
  return compareRows(book.store.tables, (await replayAll(book)).ledger.book)
}

async function differencesAfter(sql: string) {
  const book = await busyLedger()
  book.store.database.exec(sql)
  return (await check(book)).differ
}

test('unedited rows match the log', async () => {
  const { compared, differ } = await check(await busyLedger())
  expect(differ).toEqual([])
  expect(compared).toBeGreaterThan(7)
})

test('an empty log requires empty tables', async () => {
  const book = await openLedger()
  expect(await check(book)).toEqual({ compared: 0, differ: [] })
  await book.budget()
  const nothing = { budgets: new Map(), balances: new Map(), holds: new Map() }
  expect((await compareRows(book.store.tables, nothing)).differ).toEqual([
    { id: 'budget_provider_openai', detail: 'the database has this budget, the log does not' },
  ])
})

describe('reports, with its budget or hold, the row that was edited by', () => {
  test.each([
    ['update budget_balances set spent_tokens = 0', 'budget_provider_openai', 'spent_tokens 0; '],
    [
      "update budget_balances set held_nano_usd = 7 where budget_id = 'budget_total'",
      'budget_total',
      'has held_nano_usd 7; ',
    ],
    ["delete from budget_balances where budget_id = 'budget_total'", 'budget_total', 'has spent_nano_usd 0'],
    [
      "insert into budget_balances values ('budget_x', 'day', 0, 1, 0, 0, 0)",
      'budget_x',
      'in the day from 1970-01-01',
    ],
    [
      "update budgets set limit_nano_usd = 9000000000 where id = 'budget_total'",
      'budget_total',
      `has limit_nano_usd 9000000000; the log has limit_nano_usd ${2 * USD}`,
    ],
    [
      'update budgets set limit_tokens = null where limit_tokens is not null',
      'budget_provider_openai',
      'null',
    ],
    ["update budgets set removed_at_ms = 1 where id = 'budget_total'", 'budget_total', 'has removed true'],
    [
      'update budgets set removed_at_ms = null',
      'budget_session_agent_9',
      'has removed false; the log has removed true',
    ],
    [
      "update budgets set scope_kind = 'provider', scope_ref = 'x' where id = 'budget_total'",
      'budget_total',
      'scope_ref "x"',
    ],
    [
      "update budgets set allow_unpriced = 1 where id = 'budget_total'",
      'budget_total',
      'allow_unpriced true',
    ],
    ["delete from budgets where id = 'budget_total'", 'budget_total', 'the database does not'],
    [
      'update budgets set limit_nano_usd = 9223372036854775807',
      'budgets',
      'a number that the ledger cannot have written',
    ],
    ['delete from holds', expect.stringMatching(/^hold_/), 'the log has this open hold'],
    ["update holds set document = '{'", expect.stringMatching(/^hold_/), 'cannot parse'],
    [
      "update holds set document = json_set(document, '$.nanoUsd', 1)",
      expect.stringMatching(/^hold_/),
      'has nano_usd 1; ',
    ],
    [
      "update holds set document = json_set(document, '$.parts', json('[]'))",
      expect.stringMatching(/^hold_/),
      'has keys []',
    ],
    [
      "update holds set id = 'hold_x' where rowid = (select min(rowid) from holds)",
      'hold_x',
      'this hold of budget_provider_openai, budget_total; in the log it was never created, or is settled',
    ],
  ])('%s', async (sql, id, detail) => {
    expect(await differencesAfter(sql)).toContainEqual({ id, detail: expect.stringContaining(detail) })
  })

  test('restoring a hold after it was settled', async () => {
    const book = await openLedger()
    await book.budget()
    const open = await book.admitAllowed()
    const row = (await book.store.tables.holds.get(open.hold.id))!
    await book.settle(open, measuredUsage(900, 1500))
    await book.store.tables.holds.insert(row)
    expect((await check(book)).differ).toEqual([
      { id: row.id, detail: expect.stringContaining('or is settled') },
    ])
  })

  test('changing the terms of a hold, unless redaction removed them from the log', async () => {
    const differ = await differencesAfter(
      "update holds set document = json_set(document, '$.price.outputNanoUsdPerMtok', 1)",
    )
    expect(differ).toEqual([
      { id: expect.stringMatching(/^hold_/), detail: expect.stringContaining('terms') },
    ])
  })

  test('any number of edits, but lists only a hundred', async () => {
    const book = await openLedger()
    for (let n = 0; n < 120; n++) await book.budget({ scope_kind: 'session', scope_ref: `agent_${n}` })
    book.store.database.exec('update budgets set limit_nano_usd = 1')
    expect((await check(book)).differ).toHaveLength(100)
  })
})
