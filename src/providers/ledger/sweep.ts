/**
 * Settles the holds that their owner cannot settle, because it died or because its call must be over. After a while
 * they count as spent, because the provider may have billed them.
 */
import type { Clock } from '../../lib/clock.ts'
import { ownerState } from '../../lib/owner.ts'
import type { ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { HoldRow } from '../../store/ledger-tables.ts'
import type { Tables } from '../../store/store.ts'
import { CALL_MS_MAX } from '../adapters/limits.ts'
import { ledgerEntry, parseHold, settleHold } from './hold.ts'

/** A provider may still process and bill a call whose caller has exited. */
export const INDETERMINATE_AFTER_MS = 15 * 60_000

/** Runs in the transaction of the next call that needs capacity, and when a process opens the store. */
export async function sweepDead(tables: Tables, receipts: ReceiptWriter, clock: Clock): Promise<void> {
  const nowMs = clock.nowMs()
  for (const row of await tables.holds.listCreatedUntil(nowMs - INDETERMINATE_AFTER_MS)) {
    if (!isLost(row, nowMs) || (await tables.holds.take(row.id)) === undefined) continue
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

/** A live owner settles its own holds. An owner in another pid namespace may be alive, but no call lasts that long. */
function isLost({ owner, createdAtMs }: HoldRow, nowMs: number): boolean {
  const state = ownerState(owner)
  return state === 'dead' || (state === 'unknown' && nowMs >= createdAtMs + CALL_MS_MAX)
}
