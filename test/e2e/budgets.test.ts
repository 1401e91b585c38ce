/** `craik budget` and `craik quota` on the command line, after calls that were really admitted. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createEnvelope } from '../../src/policy/envelope.ts'
import { createGrant } from '../../src/policy/grants.ts'
import { envelopeFor, POLICY_OPERATOR, TERMS } from '../../src/policy/policy.fixture.ts'
import { readBuiltInPolicy } from '../../src/policy/profiles.ts'
import { admitInput, measuredUsage, nanoUsdCall } from '../../src/providers/ledger/ledger.fixture.ts'
import { admitCall, settleCall } from '../../src/providers/ledger/tokens.ts'
import { homeAt } from '../../src/store/home.ts'
import { TestHome } from '../craik.ts'
import { openLog } from '../faults/log.ts'

const home = new TestHome()
afterAll(() => home[Symbol.dispose]())

const OPENAI = ['--provider', 'provider_openai']
const SET_AGAIN =
  'craik budget set --id budget_provider_openai --provider provider_openai --limit 2.00usd --per day'
const REMOVED_HINT = `set it again:  ${SET_AGAIN}`

async function call(wanted: number, used: number | undefined): Promise<string> {
  await using opened = await openLog(home.home)
  const { store, log } = opened
  const { grant } = await createGrant(store, {
    ...TERMS,
    capability: 'model.chat',
    operations: ['chat'],
    target: { ref: 'provider_openai' },
  })
  const admitted = await store.write(
    admitCall,
    admitInput(nanoUsdCall(wanted), log.owner, grant.id, 'agent_1'),
  )
  if (admitted.effect === 'deny') return admitted.by === 'policy' ? 'policy' : admitted.rule
  const { hold, ref, begin } = admitted
  const result =
    used === undefined
      ? ({ kind: 'nothing' } as const)
      : ({ kind: 'spent', usage: measuredUsage(10, used) } as const)
  await store.write(settleCall, { holdId: hold.id, open: { ref, begin }, end: { status: 'passed' }, result })
  return 'settled'
}

beforeAll(async () => {
  await using opened = await openLog(home.home)
  await createEnvelope(opened.store, await envelopeFor('automation'), readBuiltInPolicy('automation'), {
    operator: POLICY_OPERATOR,
  })
})

describe('a budget', () => {
  it('is set, used, shown, raised and removed, with a receipt each time', async () => {
    const set = await home.json<{ id: string; replaced: boolean; receipt_id: string }>([
      'budget',
      'set',
      ...OPENAI,
      '--limit',
      '0.000002usd',
      '--per',
      'day',
    ])
    expect(set).toMatchObject({
      id: 'budget_provider_openai',
      limit_nano_usd: 2000,
      replaced: false,
      receipt_id: expect.stringMatching(/^rcpt_/),
    })
    expect(await call(1000, 700)).toBe('settled')
    expect(await call(500, undefined)).toBe('settled')
    expect(await call(5000, 5)).toBe('settled')
    expect(await call(1000, 2000)).toBe('settled')
    expect(await call(1, 1)).toBe('budget.exhausted')

    expect(await home.json(['budget', 'show', 'budget_provider_openai'])).toMatchObject([
      { limit_nano_usd: 2000, spent_nano_usd: 2705, held_nano_usd: 0, left_nano_usd: -705, period: 'day' },
    ])
    const again = await home.json(['budget', 'set', ...OPENAI, '--limit', '$2', '--per', 'day'])
    expect(again).toMatchObject({ replaced: true })
    expect(await home.json(['budget', 'show'])).toMatchObject([{ spent_nano_usd: 2705 }])
    expect(await call(1, 1)).toBe('settled')
  })

  it('lists its ledger from the receipts, newest first', async () => {
    const entries = await home.json<{ entry: string; note: string }[]>(['budget', 'ledger', '--limit', '200'])
    expect(entries.map(({ entry }) => entry).reverse()).toEqual([
      'set',
      'reserve',
      'settle',
      'reserve',
      'release',
      'reserve',
      'settle',
      'reserve',
      'settle',
      'denied',
      'set',
      'reserve',
      'settle',
    ])
    expect(entries.map(({ note }) => note)).toEqual(
      expect.arrayContaining(['measured, overrun', 'budget.exhausted', 'cap 1300']),
    )
    expect(
      await home.json(['budget', 'ledger', '--budget', 'budget_provider_openai', '--limit', '1']),
    ).toHaveLength(1)
  })

  it('is verified from the log alone: where it was exceeded, by how much, and why', async () => {
    const { code, stdout } = await home.run(['receipts', 'verify', '--replay', '--format', 'table'])
    expect([code, stdout]).toEqual([0, expect.stringContaining('decisions recomputed')])
    expect(stdout).toMatch(/^ {2}5 calls, each with its own hold$/m)
    expect(stdout).toMatch(
      /^ {2}budget_provider_openai: peak \$0\.000002706 of \$2\.00, exceeded by \$0\.000000705 at receipt \d+: .*\(overrun\)$/m,
    )
  })

  it('is verified from an exported file as well', async () => {
    const { stdout: log } = await home.run(['receipts', 'export'])
    const { stdout: key } = await home.run(['receipts', 'key'])
    writeFileSync(home.path('audit.jsonl'), log)
    writeFileSync(home.path('craik.pub'), key)
    const verified = await home.run([
      'receipts',
      'verify',
      'audit.jsonl',
      '--public-key',
      'craik.pub',
      '--replay',
    ])
    expect(verified, verified.stderr).toMatchObject({ code: 0 })
    expect(JSON.parse(verified.stdout)).toMatchObject({
      replay: {
        differ: [],
        not_replayable: 0,
        calls: { begun: 5, reserved: 5, open: 0 },
        budgets: [
          { id: 'budget_provider_openai', peak_nano_usd: 2706, exceeded: { cause: 'overrun', by: 705 } },
        ],
      },
    })
  })

  it('limits nothing after its removal, and cannot be removed again', async () => {
    expect(await home.json(['budget', 'remove', 'budget_provider_openai'])).toMatchObject({ removed: true })
    expect(await home.json(['budget', 'show'])).toEqual([])
    expect(await home.run(['budget', 'remove', 'budget_provider_openai'])).toMatchObject({
      code: 3,
      stderr: `craik: budget_provider_openai was removed\n  ${REMOVED_HINT}\n`,
    })
    expect(await home.run(['budget', 'show', 'budget_provider_openai'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining(REMOVED_HINT),
    })
    // Its ledger stays on record.
    const ledger = ['budget', 'ledger', '--budget', 'budget_provider_openai', '--limit', '200']
    expect((await home.json<{ entry: string }[]>(ledger))[0]).toMatchObject({ entry: 'remove' })
    const taken = await home.run([
      'budget',
      'set',
      '--total',
      '--limit',
      '1usd',
      '--id',
      'budget_provider_openai',
    ])
    expect([taken.code, taken.stderr]).toEqual([
      4,
      `craik: the id budget_provider_openai is already used: in the log it is the removed budget of provider provider_openai\n  choose another --id, or restore the budget:  ${SET_AGAIN}\n`,
    ])
  })
})

describe('a quota', () => {
  it('is set, shown and removed', async () => {
    await home.json(['quota', 'set', ...OPENAI, '--requests-per-minute', '1', '--concurrent', '4'])
    const [shown] = await home.json<[Record<string, number>]>(['quota', 'show'])
    expect(shown).toMatchObject({ id: 'quota_provider_openai', requests_per_minute: 1, running: 0 })
    expect(await call(1, 1)).toBe('quota.requests_per_minute')
    expect(await home.json(['quota', 'remove', 'quota_provider_openai'])).toMatchObject({ removed: true })
    expect(await call(1, 1)).toBe('settled')
  })
})

describe('a mistake', () => {
  it.each([
    [['budget', 'set', '--limit', '2usd'], 2, 'exactly one scope'],
    [['budget', 'set', ...OPENAI, '--total', '--limit', '2usd'], 2, 'exactly one scope'],
    [['budget', 'set', ...OPENAI], 2, '--tokens 500000'],
    [['budget', 'set', ...OPENAI, '--limit', '2'], 2, '2usd'],
    [['budget', 'set', ...OPENAI, '--limit', '2usd', '--per', 'hour'], 2, 'day'],
    [['budget', 'set', '--provider', 'provider_opnai', '--limit', '2usd'], 3, 'provider_openai'],
    [['budget', 'set', '--session', 'a b', '--limit', '2usd'], 2, 'letters, digits'],
    [['budget', 'show', 'nothing'], 3, 'craik budget show'],
    [['budget', 'ledger', '--budget', 'budget_opnai'], 3, 'craik budget show'],
    [['quota', 'set', ...OPENAI], 2, '--concurrent N'],
    [['quota', 'set', '--concurrent', '1'], 2, '--session ID'],
    [['quota', 'set', ...OPENAI, '--concurrent', '-1'], 2, 'whole number'],
    [['quota', 'remove', 'nothing'], 3, 'craik quota show'],
  ])('%j exits with %i and prints a hint', async (args, expected, hint) => {
    const { code, stdout, stderr } = await home.run(args)
    expect([code, stdout]).toEqual([expected, ''])
    expect(stderr).toContain(hint)
  })

  it('in a session id gives only a notice, because that session may be created later, and no notice once it exists', async () => {
    using home = new TestHome()
    const set = ['budget', 'set', '--session', 'later', '--tokens', '5000']
    const early = await home.run(set)
    expect(early).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('session later does not exist yet'),
    })
    const quota = await home.run(['quota', 'set', '--session', 'later', '--concurrent', '2'])
    expect(quota).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('session later does not exist yet'),
    })
    await home.json(['login', '--as', 'ada'])
    mkdirSync(home.path('work'))
    await home.json(['agent', 'launch', '--workspace', home.path('work'), '--session-id', 'later'])
    expect(await home.run(set)).toMatchObject({ code: 0, stderr: '' })
    const nobodys = await home.run(['budget', 'set', '--sandbox', 'later', '--tokens', '5000'])
    expect(nobodys).toMatchObject({ code: 3, stdout: '' })
  })

  it('such as a second period with the same id is refused, with the id to use', async () => {
    await home.json(['budget', 'set', '--total', '--limit', '1usd', '--per', 'day'])
    const { code, stderr } = await home.run(['budget', 'set', '--total', '--limit', '9usd', '--per', 'month'])
    expect([code, stderr]).toEqual([4, expect.stringContaining('--id budget_total_month')])
    await home.json([
      'budget',
      'set',
      '--total',
      '--limit',
      '9usd',
      '--per',
      'month',
      '--id',
      'budget_total_month',
    ])
    expect(await home.json(['budget', 'show'])).toHaveLength(2)
  })
})

describe('a row that was edited in the database alone', () => {
  it('is found by a replay of the live log, with its budget, but not by a replay of a file, which has no rows', async () => {
    const verify = ['receipts', 'verify', '--replay']
    const before = await home.json<{ replay: { rows: { compared: number } } }>(verify)
    expect(before).toMatchObject({ outcome: 'ok', replay: { rows: { differ: [] } } })
    expect(before.replay.rows.compared).toBeGreaterThan(1)
    {
      using database = new DatabaseSync(homeAt(home.home).database)
      database.exec(
        "UPDATE budget_balances SET spent_nano_usd = 0 WHERE budget_id = 'budget_provider_openai'",
      )
      database.exec("UPDATE budgets SET limit_nano_usd = 9000000000000 WHERE id = 'budget_total'")
    }
    const { code, stdout } = await home.run(verify)
    expect([code, JSON.parse(stdout)]).toMatchObject([
      1,
      {
        outcome: 'tampered',
        replay: {
          differ: [],
          rows: {
            differ: [
              { id: 'budget_total', detail: expect.stringContaining('limit_nano_usd 1000000000') },
              { id: 'budget_provider_openai', detail: expect.stringContaining('spent_nano_usd 2706') },
            ],
          },
        },
      },
    ])
    const table = await home.run([...verify, '--format', 'table'])
    expect(table.stdout).toMatch(/^ {2}✗ budget_total: the database has limit_nano_usd 9000000000000; /m)
    const { stdout: log } = await home.run(['receipts', 'export'])
    writeFileSync(home.path('audit.jsonl'), log)
    const file = await home.run([...verify, 'audit.jsonl', '--public-key', 'craik.pub'])
    expect([file.code, JSON.parse(file.stdout).replay.rows]).toEqual([0, undefined])
  })

  it('is found even if the log has no receipts', async () => {
    using other = new TestHome()
    {
      await using _opened = await openLog(other.home)
      using database = new DatabaseSync(homeAt(other.home).database)
      database.exec("INSERT INTO budgets VALUES ('budget_x', 'total', NULL, 'life', 1, NULL, 0, 0, 0, NULL)")
    }
    const { code, stdout } = await other.run(['receipts', 'verify', '--replay'])
    expect([code, JSON.parse(stdout)]).toMatchObject([
      1,
      { replay: { rows: { differ: [{ id: 'budget_x' }] } } },
    ])
  })
})

describe('a call that bypassed the ledger', () => {
  it('is found by a replay, although the log itself is intact', async () => {
    using other = new TestHome()
    let begun: string
    {
      await using opened = await openLog(other.home)
      const open = await opened.log.begin({
        kind: 'provider_action',
        operator: POLICY_OPERATOR,
        capability: 'model.chat',
        operation: 'chat',
        target: 'provider_openai',
        links: { provider_id: 'provider_openai' },
      })
      begun = open.id
      await open.end({ status: 'passed' })
    }
    expect((await other.run(['receipts', 'verify'])).code).toBe(0)
    const { code, stdout } = await other.run(['receipts', 'verify', '--replay'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      outcome: 'tampered',
      replay: {
        calls: { begun: 1, reserved: 0, open: 0 },
        differ: [
          { seq: 0, id: begun, detail: 'it began a call without a reservation' },
          { seq: 1, detail: expect.stringContaining('it ends a call that is not open') },
        ],
      },
    })
    const table = await other.run(['receipts', 'verify', '--replay', '--format', 'table'])
    expect(table.stdout).toContain('  1 call, 0 with its own hold\n')
  })
})
