/** The log read in pages up to a bound, for checks that look beyond the receipts of one session. */
import type { ReceiptFilter, ReceiptRow, Tables } from '../../store/store.ts'

const PAGE = 500
export const MAX_PAGED = 100_000

/** Newest first. Undefined at the end: the bound was reached, and older ones were not looked at. */
export async function* pagedReceipts(
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
