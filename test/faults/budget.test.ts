/** One budget with many processes, and processes that die between reserving and settling. */
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { createEnvelope } from '../../src/policy/envelope.ts'
import { createGrant } from '../../src/policy/grants.ts'
import { envelopeFor, POLICY_OPERATOR, TERMS } from '../../src/policy/policy.fixture.ts'
import { readBuiltInPolicy } from '../../src/policy/profiles.ts'
import { listBudgets, setBudget, setQuota } from '../../src/providers/ledger/budgets-and-quotas.ts'
import { admitInput, nanoUsdCall } from '../../src/providers/ledger/ledger.fixture.ts'
import { INDETERMINATE_AFTER_MS, sweepDead } from '../../src/providers/ledger/sweep.ts'
import { type AdmitOutput, admitCall } from '../../src/providers/ledger/tokens.ts'
import { Sealer } from '../../src/receipts/sealer.ts'
import { homeAt } from '../../src/store/home.ts'
import { openDatabase } from '../../src/store/sqlite/database.ts'
import { createTables } from '../../src/store/sqlite/tables.ts'
import { TestHome } from '../craik.ts'
import { openDatabaseOf, openLog } from './log.ts'
import { lineOf, startScript } from './scripts.ts'

type OpenLog = Awaited<ReturnType<typeof openLog>>

const RESERVER = new URL('./reserver.ts', import.meta.url)
const PROCESSES = 8
const ATTEMPTS = 400
const LIMIT_NANO_USD = 250_000

/** Creates a home that grants model calls under a budget. */
async function prepareLog(home: TestHome): Promise<string> {
  await using opened = await openLog(home.home)
  await createEnvelope(opened.store, await envelopeFor('automation'), readBuiltInPolicy('automation'), {
    operator: POLICY_OPERATOR,
  })
  const { grant } = await createGrant(opened.store, {
    ...TERMS,
    capability: 'model.chat',
    operations: ['chat'],
    target: { ref: 'provider_openai' },
    max_uses: null,
  })
  const terms = {
    id: 'team-eng',
    scope_kind: 'provider',
    scope_ref: 'provider_openai',
    period: 'life',
    limit_nano_usd: LIMIT_NANO_USD,
    limit_tokens: null,
    allow_unpriced: false,
  }
  await setBudget(opened.store, terms, POLICY_OPERATOR)
  return grant.id
}

function reserve({ store, log }: OpenLog, grant: string, tokens: number): Promise<AdmitOutput> {
  return store.write(admitCall, admitInput(nanoUsdCall(tokens), log.owner, grant, 'agent_1'))
}

async function readBudget({ store }: OpenLog) {
  const [budget] = await listBudgets(store, Date.now())
  return { spent: budget!.spent_nano_usd, held: budget!.held_nano_usd }
}

describe('eight processes that reserve from one budget', () => {
  it('never exceed the limit, record every attempt, and leave the rest for the next process', async () => {
    using home = new TestHome()
    const grant = await prepareLog(home)
    const scripts = Array.from({ length: PROCESSES }, () =>
      startScript(RESERVER, [home.home, grant, 'race', String(ATTEMPTS)]),
    )
    await Promise.all(scripts.map((script) => lineOf(script, (line) => line === 'ready')))
    for (const script of scripts) script.process.stdin!.end('go\n')
    // The command reads the rows and the log as they are at one moment, although processes write at the same time.
    const during = await home.run(['receipts', 'verify', '--replay'])
    const ends = await Promise.all(scripts.map((script) => script.closed))
    expect(JSON.parse(during.stdout)).toMatchObject({ replay: { differ: [], rows: { differ: [] } } })
    expect(scripts.map(({ stderr }) => stderr)).toEqual(Array(PROCESSES).fill(''))
    expect(ends.map(({ code }) => code)).toEqual(Array(PROCESSES).fill(0))

    const output = scripts.flatMap(({ lines }) => lines).filter((line) => line !== 'ready')
    const attempts = output.filter((line) => !line.startsWith('settled'))
    expect(attempts).toHaveLength(PROCESSES * ATTEMPTS)
    const receipts = budgetReceipts(home)
    const written = receipts.filter(({ operation }) => operation !== 'set').map(({ id }) => id)
    expect(written.sort()).toEqual(output.map((line) => line.split(' ')[1]).sort())
    expect(attempts.some((line) => line.startsWith('denied'))).toBe(true)

    {
      await using opened = await openLog(home.home)
      const { spent, held } = await readBudget(opened)
      expect(held).toBe(0)
      expect(spent).toBeLessThanOrEqual(LIMIT_NANO_USD)
      // A call needs less than 300 nano-dollars, so the budget refuses calls only when less than that is left.
      expect(spent).toBeGreaterThan(LIMIT_NANO_USD - 300)
      const left = LIMIT_NANO_USD - spent
      if (left > 0) expect(await reserve(opened, grant, left)).toMatchObject({ effect: 'allow' })
      expect(await reserve(opened, grant, 1)).toMatchObject({ effect: 'deny', rule: 'budget.exhausted' })
      expect(await readBudget(opened)).toEqual({ spent, held: left })
    }
    const verified = await home.run(['receipts', 'verify', '--replay'])
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
    expect(JSON.parse(verified.stdout)).toMatchObject({
      outcome: 'ok',
      replay: {
        not_replayable: 0,
        differ: [],
        budgets: [{ id: 'team-eng', exceeded: null }],
        rows: { differ: [] },
      },
    })
  })
})

describe('a process that is killed between reserving and settling', () => {
  it('frees its slot at once, and its hold counts as spent 15 minutes later', async () => {
    using home = new TestHome()
    const grant = await prepareLog(home)
    {
      await using opened = await openLog(home.home)
      const quota = { requests_per_minute: null, tokens_per_minute: null, concurrent: 1 }
      await setQuota(
        opened.store,
        { ...quota, scope_kind: 'provider', scope_ref: 'provider_openai' },
        POLICY_OPERATOR,
      )
    }
    const script = startScript(RESERVER, [home.home, grant, 'hold'])
    await lineOf(script, (line) => line.startsWith('held'))
    {
      await using opened = await openLog(home.home)
      expect(await reserve(opened, grant, 200)).toMatchObject({ rule: 'quota.concurrent' })
    }
    script.process.kill('SIGKILL')
    await once(script.process, 'close')
    {
      await using opened = await openLog(home.home)
      expect(await readBudget(opened)).toEqual({ spent: 0, held: 500 })
      const next = await reserve(opened, grant, 200)
      expect(next).toMatchObject({ effect: 'allow' })
    }
    await sweepAt(home, Date.now() + INDETERMINATE_AFTER_MS - 60_000)
    expect(operationsOf(home)).not.toContain('indeterminate')
    await sweepAt(home, Date.now() + INDETERMINATE_AFTER_MS)
    expect(operationsOf(home).at(-1)).toBe('indeterminate')
    using database = openDatabaseOf(home.home)
    expect(
      database.prepare('SELECT spent_nano_usd AS spent, held_nano_usd AS held FROM budget_balances').get(),
    ).toEqual({ spent: 500, held: 200 })
  })
})

/** Runs the cleanup of a process that starts at the given time. */
async function sweepAt(home: TestHome, nowMs: number): Promise<void> {
  const clock = { nowMs: () => nowMs }
  const database = await openDatabase(homeAt(home.home))
  database.exec('BEGIN IMMEDIATE')
  await sweepDead(createTables(database), new Sealer(homeAt(home.home), clock), clock)
  database.exec('COMMIT')
  database.close()
}

interface BudgetReceipt {
  readonly id: string
  readonly operation: string
}

function budgetReceipts(home: TestHome): readonly BudgetReceipt[] {
  using database = openDatabaseOf(home.home)
  const rows = database.prepare("SELECT line FROM receipts WHERE kind = 'budget' ORDER BY seq").all()
  return rows.map(({ line }) => (JSON.parse(line as string) as { body: BudgetReceipt }).body)
}

function operationsOf(home: TestHome): readonly string[] {
  return budgetReceipts(home).map(({ operation }) => operation)
}
