/** Where a call that failed may go on, by the rules of failover; the decision is on record before anything is sent. */
import { decideFailover } from '../failover/decide-failover.ts'
import type { FailoverPolicy } from '../failover/failover-policy.ts'
import { writeHop } from '../failover/hop-receipt.ts'
import type { Hop, Unanswered } from './hop.ts'

/** The provider to ask next; undefined: none. `cancelled`: whoever has stopped waiting wants no other answer either. */
export async function nextHop(
  { place, call, record, written, refusals }: Omit<Hop, 'cooldownMs'>,
  policy: FailoverPolicy,
  result: Unanswered,
  tried: readonly string[],
  cancelled: boolean,
): Promise<string | undefined> {
  const { failure } = result
  if (failure === undefined) return undefined
  const hop = {
    from: record.id,
    failure: cancelled ? ('cancelled' as const) : failure,
    contentPassedOn: result.kind === 'failed' && result.contentPassedOn,
    tried,
    policyEnvelopeId: call.policyEnvelopeId,
  }
  const decision = decideFailover(policy, hop)
  const to = decision.status === 'allowed' ? decision.to : undefined
  const write = async () => {
    const receipt = await writeHop(place.log, call, policy, hop, decision, result.receiptId)
    written.push(receipt.id)
  }
  // After a refusal that is only counted, whatever comes of it would be as many receipts again.
  if (result.receiptId !== undefined || refusals === undefined) await write()
  else if (to !== undefined) refusals.due.push(write)
  return to
}
