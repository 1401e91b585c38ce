/**
 * A temporary Craik home with the real tables. Procedures run in this thread, and receipts are collected instead of
 * sealed.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import type { ReceiptId } from '../lib/ids.ts'
import type { ReceiptWriter } from '../receipts/receipt-writer.ts'
import { type ReceiptDraft, receiptDraft } from '../receipts/schema.ts'
import { type Home, homeAt } from '../store/home.ts'
import { openDatabase } from '../store/sqlite/database.ts'
import { createTables } from '../store/sqlite/tables.ts'
import type { Procedure, Store } from '../store/store.ts'
import { secretProcedures } from './secret-procedures.ts'

export const TESTER = 'local-user:tester'

export interface SecretsFixture extends AsyncDisposable {
  readonly folder: string
  readonly home: Home
  readonly store: Store
  /** The receipts that were appended, in order. */
  readonly receipts: readonly ReceiptDraft[]
  /** Makes the next append fail, as on a full disk. */
  failNextReceipt(): void
}

export async function secretsFixture(nowMs: () => number = Date.now): Promise<SecretsFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'craik-secrets-'))
  const home = homeAt(join(folder, 'home'))
  const database = await openDatabase(home)
  const tables = createTables(database)
  const receipts: ReceiptDraft[] = []
  let failing = false
  const writer: ReceiptWriter = {
    async append(_tables, draft) {
      if (failing) {
        failing = false
        throw new CraikError('disk_full', 'the disk is full')
      }
      receipts.push(receiptDraft.parse(draft))
      return { id: `rcpt_${receipts.length}` as ReceiptId, seq: receipts.length - 1 }
    },
  }
  const procedures = secretProcedures(writer, { nowMs })
  const close = async () => {
    if (database.isOpen) database.close()
  }
  const store: Store = {
    async write<Input, Output>(procedure: Procedure<Input, Output>, input: Input) {
      database.exec('BEGIN IMMEDIATE')
      try {
        const output = await procedures[procedure.name]!(tables, structuredClone(input) as never)
        database.exec('COMMIT')
        return structuredClone(output) as Output
      } catch (error) {
        database.exec('ROLLBACK')
        throw error
      }
    },
    read: (work) => work(tables),
    close,
    [Symbol.asyncDispose]: close,
  }
  return {
    folder,
    home,
    store,
    receipts,
    failNextReceipt() {
      failing = true
    },
    async [Symbol.asyncDispose]() {
      await close()
      rmSync(folder, { recursive: true })
    },
  }
}

/** Returns the error that the work ends with. */
export async function expectFailure(work: Promise<unknown>): Promise<CraikError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof CraikError) return error
  throw new Error('expected a CraikError', { cause: error })
}
