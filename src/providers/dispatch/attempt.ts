/** One call to one provider: breaker, admission, the exchange, settlement. Each step is on record before the next. */
import type { Adapter } from '../adapters/adapter.ts'
import { adapterFor } from '../adapters/adapter-for.ts'
import { askBreaker, tellBreaker } from '../breaker/breakers.ts'
import type { BreakerReport } from '../breaker/state.ts'
import type { ModelRequest, Usage } from '../conversation.ts'
import { type AdmitOutput, settleCall } from '../ledger/tokens.ts'
import { type Admission, admit } from './admission.ts'
import { denyHere, skipHere } from './denials.ts'
import { endOf } from './end-receipt.ts'
import type { Exchange } from './exchange.ts'
import { type Attempt, type Hop, idsOf } from './hop.ts'
import { findRoute, type Route } from './route.ts'
import { send } from './send.ts'
import { spentOn } from './spent.ts'

export async function attempt(hop: Hop): Promise<Attempt> {
  const { place, call, record } = hop
  if (call.signal.aborted) return skipHere(hop)
  const route = await findRoute(place, record, call)
  if ('rule' in route) return denyHere(hop, { by: 'provider', ...route })
  const breaker = { store: place.store, clock: place.clock, owner: place.log.owner }
  // What dials nothing says nothing about the provider's health.
  const turn = route.baseUrl === undefined ? undefined : await askBreaker(breaker, record.id)
  if (turn?.admitted === false) {
    const { phase, lastFailure, nowMs, openUntilMs, retryAtMs } = turn
    const until = phase === 'open' ? ` until ${new Date(retryAtMs).toISOString()}` : ''
    return denyHere(hop, {
      by: 'provider',
      rule: 'provider.cooling_down',
      reason: `${record.id} is left alone${until} after it failed (${lastFailure})`,
      hint: 'see when it is tried again:  craik provider failover show',
      retryAtMs,
      failure: lastFailure,
      facts: {
        ...route.facts,
        breaker: { now_ms: nowMs, open_until_ms: openUntilMs, probing: phase === 'probing' },
      },
    })
  }
  let report: BreakerReport = { result: 'released' }
  try {
    const adapter = await adapterFor(route.dialect, route.baseUrl)
    const admission = await admit(hop, route, adapter)
    if ('kind' in admission) return admission
    const done = await perform(hop, route, adapter, admission)
    report = reportOf(done.exchange)
    return done.attempt
  } finally {
    // What was answered is settled and on record, and what was thrown says more: a breaker that misses a report must
    // hide neither. At worst it stays open until a lost probe's time is over.
    if (turn !== undefined)
      await tellBreaker(breaker, record.id, turn.probeId, report, hop.cooldownMs).catch(() => {})
  }
}

/** From here on something is held and begun, so whatever happens is settled. */
async function perform(
  hop: Hop,
  route: Route,
  adapter: Adapter,
  { request, body, admitted }: Admission,
): Promise<{ readonly attempt: Attempt; readonly exchange: Exchange }> {
  const { place, written } = hop
  const startedMs = place.clock.nowMs()
  const capped = withCap(request, admitted.hold)
  const exchange = await send(hop, route, adapter, capped, capped === request ? body : undefined)
  const facts = {
    durationMs: Math.max(0, place.clock.nowMs() - startedMs),
    maxOutputTokens: capped.maxOutputTokens ?? null,
  }
  const result = spentOn(exchange, facts)
  const settled = await place.store.write(settleCall, {
    holdId: admitted.hold.id,
    open: { ref: admitted.ref, begin: admitted.begin },
    end: endOf(exchange, result, facts),
    result,
  })
  written.push(...idsOf(settled.ref, settled.budgetReceipt))
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

function withCap(
  request: ModelRequest,
  { maxOutputTokens }: Extract<AdmitOutput, { effect: 'allow' }>['hold'],
): ModelRequest {
  const cap = maxOutputTokens ?? undefined
  return cap === request.maxOutputTokens ? request : { ...request, maxOutputTokens: cap }
}

function reportOf({ end }: Exchange): BreakerReport {
  if (end.kind === 'answered') return { result: 'answered' }
  if (end.kind === 'thrown' || end.failure.failure === 'cancelled') return { result: 'released' }
  const { failure, retryAfterMs } = end.failure
  return { result: 'failed', failure, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}
