/** The log's interface for code in a transaction. The sealer implements it in the writer thread. */
import type { ReceiptId } from '../lib/ids.ts'
import type { Tables } from '../store/store.ts'
import type { ReceiptDraft } from './schema.ts'

export interface ReceiptRef {
  readonly id: ReceiptId
  readonly seq: number
}

export interface ReceiptWriter {
  /**
   * Redacts, validates, seals and appends a receipt in the caller's transaction. A decision stays replayable only if
   * redaction does not change its input.
   */
  append(tables: Tables, draft: ReceiptDraft): Promise<ReceiptRef>
}
