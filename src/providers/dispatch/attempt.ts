/** One call to one provider: breaker, admission, the exchange, settlement. Each step is on record before the next. */
import type { Adapter } from '../adapters/adapter.ts'
import { adapterFor } from '../adapters/adapter-for.ts'
import type { BreakerReport } from '../breaker/breaker-state.ts'
import type { ModelRequest, Usage } from '../conversation.ts'
import { type Admission, type Admitted, admit } from './admission.ts'
import { denyHere, skipHere } from './denials.ts'
import type { Exchange } from './exchange.ts'
import type { Attempt, ModelHop } from './hop.ts'
import { findRoute, type Route } from './route.ts'
import { send } from './send.ts'
import { reportOf, settle } from './settlement.ts'
import { takeTurn } from './turn.ts'

export async function attempt(hop: ModelHop): Promise<Attempt> {
  const { place, call, record } = hop
  if (call.signal.aborted) return skipHere(hop)
  const route = await findRoute(place, record, call)
  if ('rule' in route) return denyHere(hop, { by: 'provider', ...route })
  const turn = await takeTurn(hop, route)
  if ('kind' in turn) return turn
  let report: BreakerReport = { result: 'released' }
  try {
    const adapter = await adapterFor(route.dialect, route.baseUrl)
    const admission = await admit(hop, route, adapter)
    if ('kind' in admission) return admission
    const done = await perform(hop, route, adapter, admission)
    report = reportOf(done.exchange)
    return done.attempt
  } finally {
    await turn.tell(report)
  }
}

/** From here on something is held and begun, so whatever happens is settled. */
async function perform(
  hop: ModelHop,
  route: Route,
  adapter: Adapter,
  { request, body, admitted }: Admission,
): Promise<{ readonly attempt: Attempt; readonly exchange: Exchange }> {
  const { place } = hop
  const startedMs = place.clock.nowMs()
  const capped = withCap(request, admitted.hold)
  const exchange = await send(hop, route, adapter, capped, capped === request ? body : undefined)
  const facts = {
    durationMs: Math.max(0, place.clock.nowMs() - startedMs),
    maxOutputTokens: capped.maxOutputTokens ?? null,
  }
  const { result, settled } = await settle(hop, admitted, exchange, facts)
  const { end } = exchange
  if (end.kind === 'thrown') throw end.error
  const receiptId = settled.ref.id
  if (end.kind === 'failed') {
    const { failure, message, hint } = end
    const { contentPassedOn } = exchange
    return {
      exchange,
      attempt: {
        kind: 'failed',
        failure: failure.failure,
        reason: message,
        hint,
        receiptId,
        contentPassedOn,
      },
    }
  }
  const usage: Usage = result.kind === 'spent' ? result.usage : { source: 'absent' }
  const { text, toolCalls } = exchange
  const { costNanoUsd } = settled
  const { stopReason } = end
  return {
    exchange,
    attempt: {
      kind: 'answered',
      model: route.model,
      text,
      toolCalls,
      stopReason,
      usage,
      costNanoUsd,
      receiptId,
    },
  }
}

function withCap(request: ModelRequest, { maxOutputTokens }: Admitted['hold']): ModelRequest {
  const cap = maxOutputTokens ?? undefined
  return cap === request.maxOutputTokens ? request : { ...request, maxOutputTokens: cap }
}
