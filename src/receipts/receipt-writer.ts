/** What code inside a transaction may do with the log. The sealer implements it in the writer thread. */
import type { ReceiptId } from '../lib/ids.ts'
import type { Tables } from '../store/store.ts'
import type { ReceiptDraft } from './schema.ts'

export interface ReceiptRef {
  readonly id: ReceiptId
  readonly seq: number
}

export interface ReceiptWriter {
  /**
   * Redacts, validates, seals and appends, in the caller's transaction. A decision that is drafted as replayable stays so
   * only if redaction leaves its input as it is.
   */
  append(tables: Tables, draft: ReceiptDraft): Promise<ReceiptRef>
}
