/** Reads the log in pages up to a limit, for checks beyond the receipts of one session. */
import type { ReceiptFilter, ReceiptRow, Tables } from '../../store/store.ts'

const PAGE = 500
export const MAX_PAGED = 100_000

/** Yields receipts newest first. Yields `undefined` last when it stopped at the limit and did not read older ones. */
export async function* scanReceipts(
  tables: Tables,
  filter: ReceiptFilter,
): AsyncGenerator<ReceiptRow | undefined> {
  let before: number | undefined
  for (let looked = 0; looked < MAX_PAGED; looked += PAGE) {
    const page = await tables.receipts.find(filter, PAGE, before)
    yield* page
    if (page.length < PAGE) return
    before = page.at(-1)!.seq
  }
  yield undefined
}
