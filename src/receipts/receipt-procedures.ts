/** The receipt procedures of the writer thread. */
import type { Procedures, Tables } from '../store/store.ts'
import type { PreparedReceipt } from './prepare.ts'
import type { Sealer } from './sealer.ts'

export function receiptProcedures(sealer: Sealer): Procedures {
  return {
    'receipts.append': (tables: Tables, prepared: PreparedReceipt) => sealer.seal(tables, prepared),
    'receipts.checkpoint': (tables: Tables) => sealer.checkpoint(tables),
    'receipts.close': (tables: Tables) => sealer.close(tables),
    'receipts.close_dead': (tables: Tables) => sealer.closeDead(tables),
    'receipts.rotate_key': (tables: Tables, operator: string) => sealer.rotate(tables, operator),
  }
}
