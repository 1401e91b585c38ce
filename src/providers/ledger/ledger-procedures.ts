/** The procedures of the ledger in the writer thread. */
import type { Clock } from '../../lib/clock.ts'
import type { ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { Procedures, Tables } from '../../store/store.ts'
import { admitWithTables, checkBeforeBody } from './admit.ts'
import { limitProcedures } from './limit-procedures.ts'
import { settleInLedger } from './settle.ts'
import { type AdmitInput, admitCall, checkCall, type SettleInput, settleCall } from './tokens.ts'

export function ledgerProcedures(receipts: ReceiptWriter, clock: Clock): Procedures {
  return {
    ...limitProcedures(receipts, clock),
    [admitCall.name]: (tables: Tables, input: AdmitInput) => admitWithTables(tables, input, receipts, clock),
    [checkCall.name]: (tables: Tables, input: AdmitInput) => checkBeforeBody(tables, input, receipts, clock),
    [settleCall.name]: (tables: Tables, input: SettleInput) => settleInLedger(tables, input, receipts),
  }
}
