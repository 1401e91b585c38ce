import { beforeAll, describe, expect, test } from 'vitest'
import type { Receipt } from '../../receipts/schema.ts'
import { type LogReplay, replayLog } from '../../run/replay-log.ts'
import { deadOwner, type Ledger, measuredUsage, openLedger, replayAll, USD } from './ledger.fixture.ts'
import { INDETERMINATE_AFTER_MS } from './sweep.ts'

/** Returns a log with at least one entry of every kind. */
async function busyLedger(): Promise<Ledger> {
  const book = await openLedger()
  await book.budget()
  await book.budget({
    scope_kind: 'total',
    scope_ref: null,
    period: 'month',
    limit_nano_usd: 10 * USD,
    limit_tokens: 300_000,
  })
  await book.quota({ requests_per_minute: 6 })
  await book.settle(await book.admitAllowed(), measuredUsage(900, 1500))
  await book.settle(await book.admitAllowed(), 'nothing')
  await book.settle(await book.admitAllowed({ maxOutputTokens: 128_000 }), { source: 'absent' })
  await book.admit({ price: null })
  await book.budget({ limit_nano_usd: 5 * USD })
  await book.admitAllowed({}, deadOwner())
  book.clock.advance(INDETERMINATE_AFTER_MS)
  await book.admitAllowed()
  for (let n = 0; n < 6; n++) await book.admit()
  await book.removeBudget('budget_total')
  return book
}

let lines: readonly string[]
beforeAll(async () => {
  const { store } = await busyLedger()
  const documents = (await store.tables.documents.list()).map(({ digest, text }) =>
    JSON.stringify({ _document: { digest, text } }),
  )
  lines = [...documents, ...(await store.tables.receipts.scan(0, 1_000_000)).map(({ line }) => line)]
})

function replay(changed: readonly string[]): Promise<LogReplay> {
  return replayLog(
    (async function* () {
      yield* changed
    })(),
    async () => {},
  )
}

type Loose = Record<string, never> & { body: Record<string, never> }

/** Returns the log after an edit of the nth receipt of an operation, as an owner of the keys could make it. */
function editLine(operation: string, edit: (body: never) => void, nth = 0): readonly string[] {
  let seen = 0
  return lines.map((line) => {
    const receipt = JSON.parse(line) as Receipt & Loose
    if (line.startsWith('{"_') || receipt.body.operation !== operation || seen++ !== nth) return line
    edit(receipt.body as never)
    return JSON.stringify(receipt)
  })
}

interface Body {
  decision: {
    effect: string
    rule: string
    input: {
      now_ms: number
      budgets: Record<string, number>[]
      call: Record<string, unknown>
    }
  }
  metadata: Record<string, unknown> & { balances: Record<string, number>[] }
}

test('agrees with a log with entries of every kind, and reports the peak of each budget', async () => {
  const { decisions, agree, notReplayable, differ, ledger: openLedger } = await replay(lines)
  expect({ differ, notReplayable, unexplained: decisions - agree }).toEqual({
    differ: [],
    notReplayable: 0,
    unexplained: 0,
  })
  expect(decisions).toBeGreaterThan(10)
  expect(openLedger.notRebuilt).toEqual([])
  expect(openLedger.budgets).toMatchObject([
    { id: 'budget_provider_openai', limitNanoUsd: 5 * USD, exceeded: null },
    { id: 'budget_total', limitTokens: 300_000, exceeded: null },
  ])
})

describe('finds', () => {
  test.each<[string, string, (body: Body) => void, RegExp]>([
    [
      'a hold made smaller than it was',
      'reserve',
      ({ metadata }) => {
        metadata.nano_usd = 1
      },
      /hold or cap differs/,
    ],
    [
      'a cap that is not the one judged',
      'reserve',
      ({ metadata }) => {
        metadata.max_output_tokens = 9
      },
      /hold or cap differs/,
    ],
    [
      'a balance before that is not what was',
      'reserve',
      ({ decision }) => {
        decision.input.budgets[0]!.spent_nano_usd! += 1
      },
      /its balance of budget_provider_openai/,
    ],
    [
      'a balance after that is not what comes out',
      'reserve',
      ({ metadata }) => {
        metadata.balances[0]!.held_nano_usd! -= 1
      },
      /its balance of/,
    ],
    [
      'a budget left out',
      'reserve',
      ({ decision, metadata }) => {
        decision.input.budgets.pop()
        metadata.balances.pop()
      },
      /omits budget budget_total/,
    ],
    [
      'a limit that nobody set',
      'reserve',
      ({ decision }) => {
        decision.input.budgets[0]!.limit_nano_usd = 9 * USD
      },
      /its limits of budget_provider_openai/,
    ],
    [
      'another window',
      'reserve',
      ({ decision }) => {
        decision.input.budgets[0]!.window_start_ms! -= 86_400_000
      },
      /the wrong window/,
    ],
    [
      'another time',
      'reserve',
      ({ decision }) => {
        decision.input.now_ms -= 86_400_000
      },
      /a different time/,
    ],
    [
      'another provider',
      'reserve',
      ({ decision }) => {
        decision.input.call.provider_id = 'provider_gemini'
      },
      /a different call/,
    ],
    [
      'an input that is none',
      'reserve',
      ({ decision }) => {
        decision.input.call.input_bytes = -1
      },
      /cannot parse/,
    ],
    [
      'a booking below what the usage costs',
      'settle',
      ({ metadata }) => {
        metadata.nano_usd = 0
      },
      /amount differs from its usage/,
    ],
    [
      'an overrun that is not flagged as it was',
      'settle',
      ({ metadata }) => {
        metadata.overrun = true
      },
      /amount differs from its usage/,
    ],
    [
      'usage that was edited',
      'settle',
      ({ metadata }) => {
        metadata.output_tokens = 1
      },
      /amount differs from its usage/,
    ],
    [
      'a settlement of a hold that never was',
      'settle',
      ({ metadata }) => {
        metadata.hold_id = 'hold_x'
      },
      /is not open/,
    ],
    [
      'a settlement in fewer budgets',
      'release',
      ({ metadata }) => {
        metadata.balances.pop()
      },
      /different budgets/,
    ],
    [
      'a dead hold that is given back',
      'indeterminate',
      ({ metadata }) => {
        metadata.nano_usd = 0
      },
      /amount differs from its usage/,
    ],
    [
      'an entry that is none',
      'release',
      (body) => {
        body.metadata = {} as never
      },
      /not a valid ledger entry/,
    ],
    [
      'a limit raised after the fact',
      'set',
      ({ metadata }) => {
        metadata.limit_nano_usd = 100 * USD
      },
      /its limits/,
    ],
  ])('%s', async (_, operation, edit, detail) => {
    const { differ } = await replay(editLine(operation, edit as never))
    expect(differ.length).toBeGreaterThan(0)
    expect(differ[0]!.detail).toMatch(detail)
  })

  test('a denial that was changed into a permission, and a permission that was changed into a denial', async () => {
    const flip = (effect: string, rule: string) => (body: Body) => {
      body.decision.effect = effect
      body.decision.rule = rule
      body.metadata.subject = 'budget_total'
    }
    const isDenial = (line: string) => line.includes('"effect":"deny"') && line.includes('"kind":"budget"')
    const denials = lines.filter((line) => line.includes('"operation":"reserve"')).findIndex(isDenial)
    expect(
      (await replay(editLine('reserve', flip('allow', 'budget.fits') as never, denials))).differ,
    ).not.toEqual([])
    expect((await replay(editLine('reserve', flip('deny', 'budget.exhausted') as never))).differ).not.toEqual(
      [],
    )
  })

  test('a receipt that was removed', async () => {
    for (const operation of ['reserve', 'settle', 'indeterminate']) {
      const at = lines.findIndex((line) => line.includes(`"operation":"${operation}"`))
      expect((await replay(lines.toSpliced(at, 1))).differ).not.toEqual([])
    }
  })
})

test('reports no difference in a log whose beginning was cut off, and lists what it could not rebuild', async () => {
  for (let from = 1; from < lines.length - 1; from++) {
    const { differ, ledger: openLedger } = await replay(lines.slice(from))
    const ofLedger = differ.filter(({ detail }) => !detail.includes('the policy'))
    expect([from, ofLedger]).toEqual([from, []])
    const first = lines.slice(from).find((line) => !line.startsWith('{"_'))!
    const spentBefore = lines.slice(0, from).some((line) => line.includes('"operation":"settle"'))
    const needsIt = lines.slice(from).some((line) => line.includes('"balances":[{'))
    if (spentBefore && needsIt && !first.includes('"seq":0}'))
      expect([from, openLedger.notRebuilt.length > 0]).toEqual([from, true])
  }
})

test('distinguishes a lowered limit from an overrun', async () => {
  const book = await openLedger()
  await book.budget()
  await book.settle(await book.admitAllowed(), measuredUsage(1000, 2000))
  await book.budget({ limit_nano_usd: 1_000_000 })
  expect(await replayAll(book)).toMatchObject({
    differ: [],
    ledger: { budgets: [{ exceeded: { by: 20_000_000, cause: 'limit_lowered' } }] },
  })
})

test('remembers an overrun of yesterday when another call of that day is settled after a call of today', async () => {
  const book = await openLedger()
  await book.budget({ limit_nano_usd: 100_000_000 })
  const [overran, later] = [await book.admitAllowed(), await book.admitAllowed()]
  await book.settle(overran, measuredUsage(1000, 50_000))
  book.clock.advance(86_400_000)
  await book.settle(await book.admitAllowed(), measuredUsage(1000, 20_000))
  await book.settle(later, measuredUsage(1000, 2000))
  expect(await replayAll(book)).toMatchObject({
    differ: [],
    ledger: { budgets: [{ exceeded: { cause: 'overrun' } }] },
  })
})

test('does not compare yesterday’s spending with today’s limit', async () => {
  const book = await openLedger()
  await book.budget()
  await book.settle(await book.admitAllowed(), measuredUsage(1000, 2000))
  book.clock.advance(86_400_000)
  await book.budget({ limit_nano_usd: 1_000_000 })
  expect((await replayAll(book)).ledger.budgets).toMatchObject([
    { exceeded: null, peak: { ofNanoUsd: 2 * USD } },
  ])
})

test('counts a redacted decision as not replayable, and still includes its amounts', async () => {
  const book = await openLedger()
  await book.budget()
  await book.settle(await book.admitAllowed({ model: `sk-${'a1B2'.repeat(10)}` }), measuredUsage(1000, 2000))
  await book.settle(await book.admitAllowed(), measuredUsage(1000, 2000))
  expect(await replayAll(book)).toMatchObject({
    notReplayable: 1,
    notReplayableKinds: [{ kind: 'budget', count: 1, receiptIds: [expect.stringMatching(/^rcpt_/)] }],
    differ: [],
    ledger: { budgets: [{ peak: { nanoUsd: 42_000_000 }, exceeded: null }] },
  })
})
