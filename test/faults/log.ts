/** Opens the real store and log of a home in this process, and reads its database with plain SQL. */
import { DatabaseSync } from 'node:sqlite'
import { systemClock } from '../../src/lib/clock.ts'
import { createReceiptLog, type ReceiptLog } from '../../src/receipts/receipt-log.ts'
import type { ReceiptDraft } from '../../src/receipts/schema.ts'
import { homeAt } from '../../src/store/home.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'

interface OpenLog extends AsyncDisposable {
  readonly store: Store
  readonly log: ReceiptLog
}

export async function openLog(root: string): Promise<OpenLog> {
  const store = await openSqliteStore(homeAt(root), new URL('../../src/writer.ts', import.meta.url))
  return { store, log: createReceiptLog(store, systemClock), [Symbol.asyncDispose]: () => store.close() }
}

/** Returns a small valid receipt, without a policy decision. */
export function point(n: number): Omit<ReceiptDraft, 'phase'> {
  return {
    kind: n % 2 === 0 ? 'provider_action' : 'egress',
    status: 'passed',
    operator: 'agent:test',
    capability: 'model.call',
    target: `target-${n}`,
    links: { session_id: `session-${n % 7}` },
    measures: [{ name: 'input_tokens', value: n, source: 'observed' }],
  }
}

export interface StoredReceipt {
  readonly seq: number
  readonly id: string
  readonly phase: string
  readonly status: string | null
  readonly begin_id: string | null
}

/** Opens a separate read-only connection, as another program would. */
export function openDatabaseOf(root: string): DatabaseSync {
  return new DatabaseSync(homeAt(root).database, { readOnly: true, timeout: 10_000 })
}

export function receiptsOf(root: string): readonly StoredReceipt[] {
  using database = openDatabaseOf(root)
  return database
    .prepare('SELECT seq, id, phase, status, begin_id FROM receipts ORDER BY seq')
    .all() as unknown as StoredReceipt[]
}

/** Returns whether the sequence numbers are 0, 1, 2 and so on. */
export function isGapless(receipts: readonly StoredReceipt[]): boolean {
  return receipts.every((receipt, i) => receipt.seq === i)
}
