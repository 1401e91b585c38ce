import { beforeAll, describe, expect, test } from 'vitest'
import type { Receipt } from '../../receipts/schema.ts'
import { type LogReplay, replayLog } from '../../run/replay-log.ts'
import { CALL_MS_MAX } from '../adapters/limits.ts'
import { deadOwner, type Ledger, measuredUsage, openLedger } from './ledger.fixture.ts'
import { INDETERMINATE_AFTER_MS } from './sweep.ts'

type Lines = readonly string[]

/** No budget applies, so only the calls, not a balance, reveal missing receipts. */
async function linesOf({ store }: Ledger): Promise<Lines> {
  const documents = (await store.tables.documents.list()).map(({ digest, text }) =>
    JSON.stringify({ _document: { digest, text } }),
  )
  return [...documents, ...(await store.tables.receipts.scan(0, 1_000_000)).map(({ line }) => line)]
}

function replay(lines: Lines): Promise<LogReplay> {
  return replayLog(
    (async function* () {
      yield* lines
    })(),
    async () => {},
  )
}

interface Loose {
  readonly body: Record<string, unknown> & { links: { receipt_ids?: string[] } }
}

/** Returns the index of the nth receipt of a kind with an operation or a phase. */
function at(lines: Lines, kind: string, what: string, nth = 0): number {
  let seen = 0
  return lines.findIndex((line) => {
    if (line.startsWith('{"_')) return false
    const { body } = JSON.parse(line) as Receipt
    return body.kind === kind && (body.operation === what || body.phase === what) && seen++ === nth
  })
}

function editLine(lines: Lines, index: number, edit: (body: Loose['body']) => void): Lines {
  const receipt = JSON.parse(lines[index]!) as Loose
  edit(receipt.body)
  return lines.with(index, JSON.stringify(receipt))
}

const idAt = (lines: Lines, index: number) => (JSON.parse(lines[index]!) as Receipt).body.id

describe('a log of calls without a budget', () => {
  let lines: Lines
  beforeAll(async () => {
    const book = await openLedger()
    await book.settle(await book.admitAllowed(), measuredUsage(900, 1500))
    await book.settle(await book.admitAllowed({ billing: 'free', price: null }), 'nothing')
    await book.admitAllowed()
    lines = await linesOf(book)
  })

  test('has a reservation for each of them, and counts those that are not settled', async () => {
    const { differ, ledger: openLedger } = await replay(lines)
    expect([differ, openLedger.calls]).toEqual([[], { begun: 3, reserved: 3, open: 1 }])
  })

  test.each<[string, (lines: Lines) => Lines, RegExp]>([
    [
      'a call whose reservation and settlement are missing',
      (all) => all.toSpliced(at(all, 'budget', 'settle'), 1).toSpliced(at(all, 'budget', 'reserve'), 1),
      /began a call without a reservation/,
    ],
    [
      'an open call without a reservation at the end',
      (all) => all.toSpliced(at(all, 'budget', 'reserve', 2), 1),
      /began a call without a reservation/,
    ],
    [
      'a call without a reservation, spelled with a blank more',
      (all) =>
        all
          .toSpliced(at(all, 'budget', 'reserve', 2), 1)
          .map((line) => line.replaceAll('"kind":"', '"kind": "').replaceAll('"decision":', '"decision": ')),
      /began a call without a reservation/,
    ],
    [
      'a settlement that is missing',
      (all) => all.toSpliced(at(all, 'budget', 'settle'), 1),
      /neither settled nor released/,
    ],
    [
      'a release that is missing',
      (all) => all.toSpliced(at(all, 'budget', 'release'), 1),
      /neither settled nor released/,
    ],
    [
      'an end that is missing',
      (all) => all.toSpliced(at(all, 'provider_action', 'end'), 1),
      /was settled, but the call has no end/,
    ],
    [
      'a begin that is missing',
      (all) => all.toSpliced(at(all, 'provider_action', 'begin'), 1),
      /not the call that just began/,
    ],
    [
      'an end that comes twice',
      (all) =>
        all.toSpliced(at(all, 'provider_action', 'begin', 1), 0, all[at(all, 'provider_action', 'end')]!),
      /is not open/,
    ],
    [
      'a second reservation for the same call',
      (all) => {
        const index = at(all, 'budget', 'reserve')
        const other = editLine(all, index, (body) => {
          body.metadata = { ...(body.metadata as object), hold_id: 'hold_other' }
        })[index]!
        return all.toSpliced(index + 1, 0, other)
      },
      /not the call that just began/,
    ],
    [
      'two calls that share a reservation',
      (all) =>
        editLine(
          all.toSpliced(at(all, 'budget', 'reserve', 2), 1),
          at(all, 'budget', 'reserve', 1),
          (body) => {
            body.links.receipt_ids!.push(idAt(all, at(all, 'provider_action', 'begin', 2)))
          },
        ),
      /does not name exactly one call/,
    ],
    [
      'a reservation whose links are none',
      (all) =>
        editLine(all, at(all, 'budget', 'reserve'), ({ links }) => {
          links.receipt_ids = 7 as never
        }),
      /does not name exactly one call/,
    ],
    [
      'a reservation of another session',
      (all) =>
        editLine(all, at(all, 'provider_action', 'begin'), ({ links }) => {
          ;(links as Record<string, unknown>).session_id = 'agent_2'
        }),
      /a different call than it names/,
    ],
    [
      'a settlement that names another call',
      (all) =>
        editLine(all, at(all, 'budget', 'settle'), ({ links }) => {
          links.receipt_ids = ['rcpt_other']
        }),
      /names a different call/,
    ],
  ])('is reported to have %s', async (_, change, detail) => {
    const { differ } = await replay(change(lines))
    expect(differ.map((each) => each.detail)).toEqual(expect.arrayContaining([expect.stringMatching(detail)]))
  })

  test('is accepted when its beginning was cut off, at any position', async () => {
    for (let from = 1; from < lines.length; from++) {
      const { differ, ledger: openLedger } = await replay(lines.slice(from))
      const ofCalls = differ.filter(({ detail }) => !detail.includes('the policy'))
      expect([from, ofCalls]).toEqual([from, []])
      const cut = lines.slice(0, from).filter((line) => line.includes('"phase":"begin"')).length
      expect([from, openLedger.calls.begun]).toEqual([from, 3 - cut])
    }
    const inTheMiddle = await replay(lines.slice(at(lines, 'budget', 'reserve')))
    expect(inTheMiddle.ledger.notRebuilt).toContain('reservations of calls that began before this log')
  })
})

describe('calls of a process that died', () => {
  test('can be ended before their holds are swept, and stay unsettled until then', async () => {
    const book = await openLedger()
    await book.admitAllowed({}, deadOwner())
    await book.closeDead()
    expect(await replay(await linesOf(book))).toMatchObject({
      differ: [],
      ledger: { calls: { begun: 1, reserved: 1, open: 1 } },
    })
    book.clock.advance(INDETERMINATE_AFTER_MS)
    await book.sweep()
    const lines = await linesOf(book)
    expect(await replay(lines)).toMatchObject({ differ: [], ledger: { calls: { open: 0 } } })
    const passed = editLine(lines, at(lines, 'provider_action', 'end'), (body) => {
      body.status = 'passed'
    })
    expect((await replay(passed)).differ).toMatchObject([
      { detail: expect.stringContaining('neither settled nor released') },
    ])
  })

  test('can be swept before they are ended, or without an end', async () => {
    const book = await openLedger()
    await book.admitAllowed({}, deadOwner())
    await book.admitAllowed({}, { ...deadOwner(), pidNamespace: 'pid:[1]' })
    book.clock.advance(CALL_MS_MAX)
    await book.settle(await book.admitAllowed(), measuredUsage(1, 1))
    await book.closeDead()
    expect(await replay(await linesOf(book))).toMatchObject({
      differ: [],
      ledger: { calls: { begun: 3, reserved: 3, open: 0 } },
    })
  })
})

test('a call that is denied, or cancelled before it begins, needs no reservation', async () => {
  const book = await openLedger(null)
  expect(await book.admit()).toMatchObject({ effect: 'deny', by: 'policy' })
  await book.store.log.append({
    kind: 'provider_action',
    status: 'skipped',
    operator: 'local:ada',
    capability: 'model.chat',
    links: {},
  })
  const { differ, ledger: report } = await replay(await linesOf(book))
  expect([differ, report.calls]).toEqual([[], { begun: 0, reserved: 0, open: 0 }])
})
