/** Signed durable receipts against plain SQLite inserts with the same durability, on the same disk, turn by turn. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { systemClock } from '../src/lib/clock.ts'
import { createReceiptLog, type ReceiptLog } from '../src/receipts/log.ts'
import type { ReceiptDraft } from '../src/receipts/schema.ts'
import { homeAt } from '../src/store/home.ts'
import { openSqliteStore } from '../src/store/sqlite/store.ts'
import { median, type Row, TemporaryFolder } from './measure.ts'

const ROUNDS = 7
const SINGLE = 400
const GROUPED = 8_000
const IN_FLIGHT = 256

export async function receiptRows(): Promise<Row[]> {
  using folder = new TemporaryFolder()
  await using store = await openSqliteStore(
    homeAt(join(folder.path, 'home')),
    new URL('../src/writer.ts', import.meta.url),
  )
  const log = createReceiptLog(store, systemClock)
  const plain = plainInserts(join(folder.path, 'plain.sqlite3'))
  await appendAll(log, 200, 1)
  plain(200)

  const rates: { plain: number; single: number; grouped: number }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    rates.push({
      plain: await rate(SINGLE, async () => plain(SINGLE)),
      single: await rate(SINGLE, () => appendAll(log, SINGLE, 1)),
      grouped: await rate(GROUPED, () => appendAll(log, GROUPED, IN_FLIGHT)),
    })
  }
  const theirs = median(rates.map(({ plain }) => plain))
  const row = (what: string, ours: number, ratio: number, atLeast: number): Row => ({
    what,
    against: 'plain SQLite inserts, WAL, synchronous=FULL, one transaction each',
    ours: `${Math.round(ours)}/s`,
    theirs: `${Math.round(theirs)}/s`,
    ratio,
    bar: { atLeast },
    command: 'npm run bench -- receipts',
  })
  return [
    row(
      'signed durable receipts, one at a time',
      median(rates.map(({ single }) => single)),
      median(rates.map(({ single, plain }) => single / plain)),
      0.6,
    ),
    row(
      `signed durable receipts, ${IN_FLIGHT} in flight`,
      median(rates.map(({ grouped }) => grouped)),
      median(rates.map(({ grouped, plain }) => grouped / plain)),
      4,
    ),
  ]
}

/** A row of the same size and the same unique index, without redaction, schema, hash, HMAC, tree or worker. */
function plainInserts(path: string): (count: number) => void {
  const database = new DatabaseSync(path)
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  database.exec(
    'CREATE TABLE receipts (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, line TEXT NOT NULL) STRICT',
  )
  const insert = database.prepare('INSERT INTO receipts (id, line) VALUES (?, ?)')
  const line = JSON.stringify({ body: sample(0), seal: 'x'.repeat(280) })
  return (count) => {
    for (let i = 0; i < count; i++) insert.run(`rcpt_${Date.now()}_${randomBytes(8).toString('hex')}`, line)
  }
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

/** What a model call leaves: links, a decision with the attributes it looked at, figures. */
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
      policy_digest: `sha256:${'5e1c'.repeat(16)}`,
      replayable: true,
      input: { request: { capability: 'model.chat', operation: 'call' }, now_ms: 1_763_197_964_000 + n },
    },
    measures: [
      { name: 'input_tokens', value: 18_204, source: 'observed' },
      { name: 'output_tokens', value: 1_377, source: 'observed' },
    ],
  }
}
