/**
 * Compares signed, durable receipts with plain SQLite inserts of the same durability, on the same disk and in turns.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { systemClock } from '../src/lib/clock.ts'
import { newId, type ReceiptId } from '../src/lib/ids.ts'
import { prepareReceipt } from '../src/receipts/prepare.ts'
import { createReceiptLog, type ReceiptLog } from '../src/receipts/receipt-log.ts'
import { CleanJson } from '../src/receipts/redaction/redact.ts'
import type { ReceiptDraft } from '../src/receipts/schema.ts'
import { Sealer } from '../src/receipts/sealer.ts'
import { type Home, homeAt } from '../src/store/home.ts'
import { openDatabase } from '../src/store/sqlite/database.ts'
import { openSqliteStore } from '../src/store/sqlite/sqlite-store.ts'
import { createTables } from '../src/store/sqlite/tables.ts'
import { median, type Row, TemporaryFolder } from './measure.ts'
import { PlainThread, plainInserts } from './plain-inserts.ts'

const ROUNDS = 9
const SINGLE = 500
const GROUPED = 15_000
const IN_FLIGHT = 512

export async function receiptRows(): Promise<Row[]> {
  using folder = new TemporaryFolder()
  const path = (name: string) => join(folder.path, name)
  await using store = await openSqliteStore(
    homeAt(path('home')),
    new URL('../src/writer.ts', import.meta.url),
  )
  await using thread = new PlainThread(path('thread.sqlite3'))
  const log = createReceiptLog(store, systemClock)
  const seal = await createSealing(homeAt(path('sealed')))
  const plain = plainInserts(path('plain.sqlite3'))
  const turn = {
    plain: () => times(SINGLE, async () => plain()),
    sealed: () => times(SINGLE, seal),
    plainThread: () => times(SINGLE, () => thread.insert()),
    log: () => times(SINGLE, async (i) => void (await log.append(sample(i)))),
    grouped: () => appendAll(log, GROUPED, IN_FLIGHT),
  }
  const counts = { plain: SINGLE, sealed: SINGLE, plainThread: SINGLE, log: SINGLE, grouped: GROUPED }
  type Name = keyof typeof turn
  const rounds: Record<Name, number>[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const rates = {} as Record<Name, number>
    for (const name of Object.keys(turn) as Name[]) rates[name] = await rate(counts[name], turn[name])
    // The first round fills caches and write-ahead logs.
    if (round > 0) rounds.push(rates)
  }
  const row = (what: string, ours: Name, theirs: Name, against: string, atLeast: number): Row => ({
    what,
    against,
    ours: `${Math.round(median(rounds.map((rates) => rates[ours])))}/s`,
    theirs: `${Math.round(median(rounds.map((rates) => rates[theirs])))}/s`,
    ratio: median(rounds.map((rates) => rates[ours] / rates[theirs])),
    bar: { atLeast },
    command: 'npm run bench -- receipts',
  })
  const one = 'plain SQLite inserts, WAL, synchronous=FULL, one transaction each'
  return [
    row('sealing and committing one receipt at a time', 'sealed', 'plain', one, 0.6),
    row('the same through the writer thread', 'log', 'plainThread', `${one}, through a thread`, 0.6),
    row(`signed durable receipts, ${IN_FLIGHT} in flight`, 'grouped', 'plain', one, 4),
  ]
}

/** Returns the work of the writer thread for one receipt, without the thread. */
async function createSealing(home: Home): Promise<(i: number) => Promise<void>> {
  const database = await openDatabase(home)
  const tables = createTables(database)
  const sealer = new Sealer(home, systemClock)
  const known = new CleanJson()
  const [begin, commit] = [database.prepare('BEGIN IMMEDIATE'), database.prepare('COMMIT')]
  return async (i) => {
    const prepared = prepareReceipt(
      newId<ReceiptId>('rcpt', Date.now()),
      { ...sample(i), phase: 'point' },
      known,
    )
    begin.run()
    await sealer.seal(tables, prepared)
    commit.run()
  }
}

async function times(count: number, work: (i: number) => Promise<void>): Promise<void> {
  for (let i = 0; i < count; i++) await work(i)
}

async function appendAll(log: ReceiptLog, count: number, inFlight: number): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await log.append(sample(next++))
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
}

async function rate(count: number, work: () => Promise<void>): Promise<number> {
  const started = performance.now()
  await work()
  return (count * 1000) / (performance.now() - started)
}

export const POLICY_TEXT = 'permit (principal, action, resource);'
export const POLICY_DIGEST = `sha256:${createHash('sha256').update(POLICY_TEXT).digest('hex')}`

/** Returns a receipt like that of a model call: links, a decision with the attributes that it read, and measures. */
export function sample(n: number): Omit<ReceiptDraft, 'phase'> {
  return {
    kind: 'provider_action',
    status: 'passed',
    operator: 'local-user:bench',
    capability: 'model.chat',
    operation: 'call',
    target: 'provider_action:provider_fixture_local',
    links: {
      session_id: 'agent_bench_fixture_20261115090000',
      task_id: 'task_bench',
      run_id: `run_${Math.floor(n / 50)}`,
      policy_envelope_id: 'policy_task_bench',
      provider_id: 'provider_fixture_local',
      provider_result_count: 1,
      grant_id: 'grant_01JCQ000000000000000000000',
      grant_outcome: 'usable',
    },
    decision: {
      effect: 'allow',
      rule: 'strict.granted',
      missing: [],
      policy_digest: POLICY_DIGEST,
      replayable: true,
      input: { request: { capability: 'model.chat', operation: 'call' }, now_ms: 1_763_197_964_000 + n },
    },
    measures: [
      { name: 'input_tokens', value: 18_204, source: 'observed' },
      { name: 'output_tokens', value: 1_377, source: 'observed' },
    ],
  }
}
