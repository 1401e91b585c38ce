/** The end of a call that was admitted: what it is booked at, its receipts, and what its provider's breaker hears. */
import type { BreakerReport } from '../breaker/breaker-state.ts'
import { type SettleInput, type SettleOutput, settleCall } from '../ledger/tokens.ts'
import type { Admitted } from './admission.ts'
import { endOf } from './end-receipt.ts'
import type { Ended } from './exchange.ts'
import { type Hop, idsOf } from './hop.ts'
import { type CallFacts, spentOn } from './spent.ts'

export interface Settlement {
  readonly result: SettleInput['result']
  readonly settled: SettleOutput
}

/** `free`: whatever came of it, such a call is not billed. */
export async function settle(
  { place, written }: Pick<Hop, 'place' | 'written'>,
  admitted: Admitted,
  ended: Ended,
  facts: CallFacts,
  { free = false }: { readonly free?: boolean } = {},
): Promise<Settlement> {
  const result: SettleInput['result'] = free ? { kind: 'nothing' } : spentOn(ended, facts)
  const settled = await place.store.write(settleCall, {
    holdId: admitted.hold.id,
    open: { ref: admitted.ref, begin: admitted.begin },
    end: endOf(ended, result, facts),
    result,
  })
  written.push(...idsOf(settled.ref, settled.budgetReceipt))
  return { result, settled }
}

export function reportOf({ end }: Pick<Ended, 'end'>): BreakerReport {
  if (end.kind === 'answered') return { result: 'answered' }
  if (end.kind === 'thrown' || end.failure.failure === 'cancelled') return { result: 'released' }
  if (end.isOfLogin || end.isOfClient) return { result: 'released' }
  const { failure, retryAfterMs } = end.failure
  return { result: 'failed', failure, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}
