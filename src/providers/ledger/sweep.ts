/** Holds that nobody will settle: their owner died. After a while they count as spent, because they may be. */
import type { Clock } from '../../lib/clock.ts'
import { ownerState } from '../../lib/owner.ts'
import type { ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { Tables } from '../../store/store.ts'
import { ledgerEntry, parseHold, settleHold } from './hold.ts'

/** A provider may still be answering, and billing, a caller that is gone. */
export const INDETERMINATE_AFTER_MS = 15 * 60_000

/** Runs in the transaction of whoever is next to ask for room. */
export async function sweepDead(tables: Tables, receipts: ReceiptWriter, clock: Clock): Promise<void> {
  for (const row of await tables.holds.madeUntil(clock.nowMs() - INDETERMINATE_AFTER_MS)) {
    if (ownerState(row.owner) !== 'dead' || !(await tables.holds.remove(row.id))) continue
    const hold = parseHold(row)
    const { nanoUsd, tokens, operator, links } = hold
    const balances = await settleHold(tables, hold, { nanoUsd, tokens })
    await receipts.append(tables, {
      ...ledgerEntry(operator, links, 'indeterminate'),
      status: 'indeterminate',
      metadata: { hold_id: row.id, nano_usd: nanoUsd, tokens, usage_source: 'absent', balances },
    })
  }
}
