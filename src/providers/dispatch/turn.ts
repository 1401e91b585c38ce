/** A call's turn at a provider: its breaker is asked before anything is held, and hears how it came out. */

import type { BreakerReport } from '../breaker/breaker-state.ts'
import { checkBreaker, checkBreakerWithoutProbe, reportToBreaker } from '../breaker/breakers.ts'
import { denyHere } from './denials.ts'
import type { Hop, Unanswered } from './hop.ts'
import type { Route } from './route.ts'

export interface Turn {
  readonly tell: (report: BreakerReport) => Promise<void>
}

const UNREPORTED: Turn = { tell: async () => {} }

/**
 * What dials nothing says nothing about the provider's health, and its turn is anybody's. A `free` call obeys the breaker
 * and reports nothing to it: nothing limits such calls, so one caller could keep the provider in cooldown for all.
 */
export async function takeTurn(
  hop: Hop,
  route: Pick<Route, 'baseUrl' | 'facts'>,
  { free = false }: { readonly free?: boolean } = {},
): Promise<Turn | Unanswered> {
  const { place, record } = hop
  if (route.baseUrl === undefined) return UNREPORTED
  const breaker = { store: place.store, clock: place.clock, owner: place.log.owner }
  const turn = free
    ? await checkBreakerWithoutProbe(breaker, record.id)
    : await checkBreaker(breaker, record.id, hop.call.scope.sandbox_id ?? null)
  if (turn.admitted && free) return UNREPORTED
  if (turn.admitted) {
    // What was answered is settled and on record, and what was thrown says more: a breaker that misses a report must
    // hide neither. At worst it stays open until a lost probe's time is over.
    return {
      tell: (report) =>
        reportToBreaker(breaker, record.id, turn.probeId, report, hop.cooldownMs).catch(() => {}),
    }
  }
  const { phase, lastFailure, nowMs, openUntilMs, retryAtMs } = turn
  const until = phase === 'open' ? ` until ${new Date(retryAtMs).toISOString()}` : ''
  return denyHere(hop, {
    by: 'provider',
    rule: 'provider.cooling_down',
    reason: `${record.id} is in cooldown${until} after a failure (${lastFailure})`,
    hint: `wait until the cooldown ends:  craik provider failover show   or end the cooldown now:  craik provider failover reset ${record.id}`,
    retryAtMs,
    failure: lastFailure,
    facts: {
      ...route.facts,
      breaker: { now_ms: nowMs, open_until_ms: openUntilMs, probing: phase === 'probing' },
    },
  })
}
