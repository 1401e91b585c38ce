/** Tests the ledger against a small model of it: random calls, results, dead processes and changes of limits. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listBudgets } from './budgets-and-quotas.ts'
import {
  type Allowed,
  deadOwner,
  type Ledger,
  measuredUsage,
  nanoUsdCall,
  openLedger,
  replayAll,
} from './ledger.fixture.ts'
import { compareRows } from './recorded-rows.ts'
import { INDETERMINATE_AFTER_MS } from './sweep.ts'

interface Flight {
  readonly call: Allowed
  readonly nano: number
  readonly session: string
  readonly dead: boolean
  readonly atMs: number
}

interface Books {
  readonly limits: Map<string, number>
  readonly spent: Map<string, number>
  flights: Flight[]
  /** Budgets that may exceed a limit, because of an overrun or because the limit was lowered. */
  readonly excused: Set<string>
}

const SESSIONS = ['agent_1', 'agent_2']
const BUDGETS = ['budget_total', ...SESSIONS.map((session) => `budget_session_${session}`)]
const applying = (session: string) => ['budget_total', `budget_session_${session}`]
const dead = deadOwner()

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('admit' as const),
      session: fc.constantFrom(...SESSIONS),
      cap: fc.integer({ min: 1, max: 3000 }),
      dead: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      which: fc.nat(),
      share: fc.constantFrom(0, 0.3, 1, 1, 1.5),
      how: fc.constantFrom('measured' as const, 'absent' as const, 'nothing' as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.integer({ min: 0, max: INDETERMINATE_AFTER_MS }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('set' as const),
      budget: fc.constantFrom(...BUDGETS),
      limit: fc.integer({ min: 0, max: 12_000 }),
    }),
  },
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

test('never holds or spends beyond a limit, agrees with the model at every step, and replays', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
      const book = await openLedger()
      const books: Books = { limits: new Map(), spent: new Map(), flights: [], excused: new Set() }
      for (const id of BUDGETS) await setLimit(book, books, id, 8000)
      for (const each of steps) {
        await take(book, books, each)
        await agree(book, books)
      }
      const { differ, ledger: report } = await replayAll(book)
      expect(differ).toEqual([])
      expect((await compareRows(book.store.tables, report.book)).differ).toEqual([])
      for (const { id, exceeded } of report.budgets)
        if (!books.excused.has(id)) expect([id, exceeded]).toEqual([id, null])
    }),
    { numRuns: 60 },
  )
})

async function take(book: Ledger, books: Books, each: Step): Promise<void> {
  if (each.do === 'set') return setLimit(book, books, each.budget, each.limit)
  if (each.do === 'wait') {
    book.clock.advance(each.ms)
    await book.sweep()
    sweep(book, books)
    return
  }
  if (each.do === 'admit') return admit(book, books, each)
  const flight = books.flights[each.which % Math.max(1, books.flights.length)]
  if (flight === undefined) return
  const used = Math.floor(flight.nano * each.share)
  const result =
    each.how === 'measured'
      ? measuredUsage(0, used)
      : each.how === 'absent'
        ? ({ source: 'absent' } as const)
        : 'nothing'
  await book.settle(flight.call, result)
  books.flights = books.flights.filter((other) => other !== flight)
  const amount = each.how === 'measured' ? used : each.how === 'absent' ? flight.nano : 0
  bookAmount(books, flight, amount)
}

async function admit(
  book: Ledger,
  books: Books,
  { session, cap, dead: dies }: Extract<Step, { do: 'admit' }>,
): Promise<void> {
  sweep(book, books)
  const available = Math.min(
    ...applying(session).map((id) => books.limits.get(id)! - amountSpent(books, id) - sumHolds(books, id)),
  )
  const output = await book.admit(nanoUsdCall(cap), dies ? dead : undefined, session)
  const fits = Math.min(cap, available)
  if (fits < Math.min(cap, 1024)) {
    expect(output).toMatchObject({ effect: 'deny', by: 'budget', rule: 'budget.exhausted' })
    return
  }
  expect(output).toMatchObject({ effect: 'allow', hold: { maxOutputTokens: fits, lowered: fits < cap } })
  const call = output as Allowed
  books.flights.push({ call, nano: fits, session, dead: dies, atMs: book.clock.nowMs() })
}

function sweep({ clock }: Ledger, books: Books): void {
  const due = books.flights.filter(({ dead, atMs }) => dead && atMs + INDETERMINATE_AFTER_MS <= clock.nowMs())
  books.flights = books.flights.filter((flight) => !due.includes(flight))
  for (const flight of due) bookAmount(books, flight, flight.nano)
}

function bookAmount(books: Books, { session, nano }: Flight, amount: number): void {
  for (const id of applying(session)) {
    books.spent.set(id, amountSpent(books, id) + amount)
    if (amount > nano) books.excused.add(id)
  }
}

async function setLimit(book: Ledger, books: Books, id: string, limit: number): Promise<void> {
  const session = SESSIONS.find((each) => id.endsWith(each))
  const scope = session
    ? { scope_kind: 'session' as const, scope_ref: session }
    : { scope_kind: 'total' as const, scope_ref: null }
  await book.budget({ ...scope, period: 'life', limit_nano_usd: limit })
  if (limit < (books.limits.get(id) ?? 0)) books.excused.add(id)
  books.limits.set(id, limit)
}

async function agree({ store, clock }: Ledger, books: Books): Promise<void> {
  for (const { budget_id, spent_nano_usd, held_nano_usd, limit_nano_usd } of await listBudgets(
    store,
    clock.nowMs(),
  )) {
    expect([budget_id, spent_nano_usd, held_nano_usd]).toEqual([
      budget_id,
      amountSpent(books, budget_id),
      sumHolds(books, budget_id),
    ])
    if (!books.excused.has(budget_id))
      expect(spent_nano_usd + held_nano_usd).toBeLessThanOrEqual(limit_nano_usd!)
  }
}

function amountSpent({ spent }: Books, id: string): number {
  return spent.get(id) ?? 0
}

function sumHolds({ flights }: Books, id: string): number {
  return flights
    .filter(({ session }) => applying(session).includes(id))
    .reduce((sum, { nano }) => sum + nano, 0)
}
