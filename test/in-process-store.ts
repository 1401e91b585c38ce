/** The real tables, procedures and sealer over an in-memory database, in one thread and with a test clock. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { CraikError } from '../src/errors.ts'
import { egressProcedures } from '../src/gateway/egress/egress-procedures.ts'
import type { Clock } from '../src/lib/clock.ts'
import { policyProcedures } from '../src/policy/policy-procedures.ts'
import { breakerProcedures } from '../src/providers/breaker/breaker-procedures.ts'
import { ledgerProcedures } from '../src/providers/ledger/ledger-procedures.ts'
import { providerSettingProcedures } from '../src/providers/settings-procedures.ts'
import { createReceiptLog, type ReceiptLog } from '../src/receipts/receipt-log.ts'
import { receiptProcedures } from '../src/receipts/receipt-procedures.ts'
import type { Receipt } from '../src/receipts/schema.ts'
import { Sealer } from '../src/receipts/sealer.ts'
import { agentProcedures } from '../src/run/agents/agent-procedures.ts'
import { demoProcedures } from '../src/run/demo/removal.ts'
import { promptProcedures } from '../src/run/prompts/prompt-procedures.ts'
import { lifecycleProcedures } from '../src/sandboxes/lifecycle/lifecycle-procedures.ts'
import { sandboxProcedures } from '../src/sandboxes/sandbox-procedures.ts'
import { type Home, homeAt } from '../src/store/home.ts'
import { MIGRATIONS } from '../src/store/migrations.ts'
import { createTables } from '../src/store/sqlite/tables.ts'
import type { Procedures, Store, Tables } from '../src/store/store.ts'
import { tempFolder } from './temp-folder.ts'

export interface InProcessStore extends Store {
  readonly log: ReceiptLog
  /** The home with its keys. */
  readonly home: Home
  readonly tables: Tables
  /** For attacks that the tables do not allow. */
  readonly database: DatabaseSync
  /** The bodies of all receipts, oldest first. */
  bodies(): Promise<readonly Receipt['body'][]>
}

export function inProcessStore(clock: Clock): InProcessStore {
  const database = new DatabaseSync(':memory:')
  for (const { sql } of MIGRATIONS) database.exec(sql)
  const tables = createTables(database)
  const home = homeAt(join(tempFolder('craik-in-process-'), 'home'))
  const sealer = new Sealer(home, clock)
  const procedures: Procedures = {
    ...receiptProcedures(sealer),
    ...policyProcedures(sealer, clock),
    ...sandboxProcedures(sealer, clock),
    ...lifecycleProcedures(sealer, clock),
    ...providerSettingProcedures(sealer, clock),
    ...agentProcedures(sealer, clock, home),
    ...demoProcedures(sealer, clock, home),
    ...promptProcedures(sealer, clock, home),
    ...breakerProcedures(sealer, clock),
    ...ledgerProcedures(sealer, clock),
    ...egressProcedures(sealer, clock),
  }
  let view = tables
  let turn: Promise<unknown> = Promise.resolve()
  const write = async (name: string, input: unknown): Promise<unknown> => {
    const body = procedures[name]
    if (body === undefined) throw new CraikError('internal', `unknown procedure: ${name}`)
    database.exec('BEGIN IMMEDIATE')
    try {
      const output = await body(view, structuredClone(input) as never)
      database.exec('COMMIT')
      return structuredClone(output)
    } catch (error) {
      database.exec('ROLLBACK')
      view = { ...tables }
      throw error
    }
  }
  const close = async () => {}
  const store: Store = {
    write(procedure, input) {
      const mine = turn.then(() => write(procedure.name, input))
      turn = mine.catch(() => {})
      return mine as Promise<never>
    },
    read: (work) => work(tables),
    close,
    [Symbol.asyncDispose]: close,
  }
  return {
    ...store,
    home,
    tables,
    database,
    log: createReceiptLog(store, clock),
    bodies: async () => (await tables.receipts.scan(0, 1_000_000)).map(({ line }) => JSON.parse(line).body),
  }
}
