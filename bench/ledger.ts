/**
 * Measures the admission and settlement of a model call through the writer thread, against one plain durable insert.
 */
import { join } from 'node:path'
import { currentOwner } from '../src/lib/owner.ts'
import { buildEnvelope, createEnvelope } from '../src/policy/envelope.ts'
import { createGrant } from '../src/policy/grants.ts'
import { readBuiltInPolicy } from '../src/policy/profiles.ts'
import { setBudget } from '../src/providers/ledger/budgets-and-quotas.ts'
import { type AdmitInput, admitCall, settleCall } from '../src/providers/ledger/tokens.ts'
import { homeAt } from '../src/store/home.ts'
import { openSqliteStore } from '../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../src/store/store.ts'
import { formatSpread, median, type Row, spread, TemporaryFolder } from './measure.ts'
import { PlainThread } from './plain-inserts.ts'

const OPERATOR = 'local-user:bench'
const PROVIDER = 'provider_fixture_local'
const USD = 1_000_000_000
const ROUNDS = 7
const SINGLE = 200
const GROUPED = 2_000
const IN_FLIGHT = 64

export async function ledgerRows(): Promise<Row[]> {
  using folder = new TemporaryFolder()
  await using store = await openSqliteStore(
    homeAt(join(folder.path, 'home')),
    new URL('../src/writer.ts', import.meta.url),
  )
  await using thread = new PlainThread(join(folder.path, 'thread.sqlite3'))
  const input = await scene(store)
  const times = { admit: [] as number[], settle: [] as number[], plain: [] as number[] }
  const rates: { ours: number; plain: number }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    // The first round fills caches and write-ahead logs.
    const counted = round > 0
    for (let i = 0; i < SINGLE; i++) {
      const [admitMs, settleMs] = await call(store, input)
      const plainMs = await measureMs(() => thread.insert())
      if (!counted) continue
      times.admit.push(admitMs)
      times.settle.push(settleMs)
      times.plain.push(plainMs)
    }
    const ours = await rate(GROUPED, IN_FLIGHT, () => call(store, input))
    const plain = await rate(SINGLE, 1, () => thread.insert())
    if (counted) rates.push({ ours, plain })
  }
  const insert = 'a plain SQLite insert, WAL, synchronous=FULL, through a thread'
  const plain = spread(times.plain)
  const one = (what: string, values: readonly number[]): Row => {
    const ours = spread(values)
    return {
      what,
      against: insert,
      ours: formatSpread(ours),
      theirs: formatSpread(plain),
      ratio: ours.p50 / plain.p50,
      bar: undefined,
      command: 'npm run bench -- ledger',
    }
  }
  return [
    one('admission of a model call: policy, grant, budget, two receipts', times.admit),
    one('settlement of it: the budget and two receipts', times.settle),
    {
      what: `model calls admitted and settled, ${IN_FLIGHT} in flight`,
      against: 'plain SQLite inserts, WAL, synchronous=FULL, one after the other through a thread',
      ours: `${Math.round(median(rates.map(({ ours }) => ours)))}/s`,
      theirs: `${Math.round(median(rates.map(({ plain: theirs }) => theirs)))}/s`,
      ratio: median(rates.map(({ ours, plain: theirs }) => ours / theirs)),
      bar: undefined,
      command: 'npm run bench -- ledger',
    },
  ]
}

async function scene(store: Store): Promise<AdmitInput> {
  const policyText = readBuiltInPolicy('automation')
  const envelope = buildEnvelope({
    taskId: 'task-1',
    actor: OPERATOR,
    profile: 'automation',
    policyText,
    nowMs: Date.now(),
  })
  await createEnvelope(store, envelope, policyText, { operator: OPERATOR })
  const { grant } = await createGrant(store, {
    capability: 'model.chat',
    subject: OPERATOR,
    scope: { task_id: 'task-1' },
    target: { ref: PROVIDER },
    operations: ['chat'],
    max_uses: 1_000_000,
    approved_by: OPERATOR,
  })
  await setBudget(
    store,
    {
      scope_kind: 'total',
      scope_ref: null,
      period: 'day',
      limit_nano_usd: 1_000_000 * USD,
      limit_tokens: null,
      allow_unpriced: false,
    },
    OPERATOR,
  )
  return {
    request: {
      operator: OPERATOR,
      capability: 'model.chat',
      operation: 'chat',
      target: PROVIDER,
      scope: { task_id: 'task-1', session_id: 'agent_bench' },
      policy_envelope_id: envelope.id,
      grant_id: grant.id,
    },
    receipt: { kind: 'provider_action', links: { provider_id: PROVIDER } },
    owner: currentOwner(),
    call: {
      providerId: PROVIDER,
      model: 'fixture-large',
      billing: 'metered',
      price: {
        inputNanoUsdPerMtok: USD,
        cacheReadNanoUsdPerMtok: USD / 10,
        cacheWriteNanoUsdPerMtok: (USD * 5) / 4,
        outputNanoUsdPerMtok: 10 * USD,
      },
      inputBytes: 1000,
      maxOutputTokens: 2000,
      capCanBeSet: true,
    },
  }
}

async function call(store: Store, input: AdmitInput): Promise<readonly [number, number]> {
  const started = performance.now()
  const admitted = await store.write(admitCall, input)
  const between = performance.now()
  if (admitted.effect === 'deny') throw new Error(`the bench's call is denied by ${admitted.by}`)
  const { ref, begin, hold } = admitted
  await store.write(settleCall, {
    holdId: hold.id,
    open: { ref, begin },
    end: { status: 'passed' },
    result: {
      kind: 'spent',
      usage: {
        source: 'measured',
        inputTokens: 300,
        cacheReadTokens: 0,
        cacheWriteTokens: 0,
        outputTokens: 200,
      },
    },
  })
  return [between - started, performance.now() - between]
}

async function measureMs(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}

async function rate(count: number, inFlight: number, work: () => Promise<unknown>): Promise<number> {
  let next = 0
  const lane = async () => {
    while (next++ < count) await work()
  }
  const ms = await measureMs(() => Promise.all(Array.from({ length: inFlight }, lane)))
  return (count * 1000) / ms
}
