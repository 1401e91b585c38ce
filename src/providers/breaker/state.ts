/** When a provider is left alone, and when it is tried again: pure steps from one state to the next. */
import type { FailureKind } from '../adapters/adapter.ts'

/** How many failures in a row open a breaker. */
export const FAILURES_TO_OPEN = 3
export const FIRST_COOLDOWN_MS = 30_000
/** Each probe that fails doubles the cooldown, up to this. */
export const MAX_COOLDOWN_MS = 5 * 60_000
/** A provider's Retry-After is believed up to this. */
export const MAX_RETRY_AFTER_MS = 60 * 60_000

export interface BreakerState {
  /** Failures in a row while closed. */
  readonly failures: number
  /** Times it opened without a success in between. */
  readonly openings: number
  /** Null: closed. Before it: open. From then on: half-open, one probe at a time for each caller. */
  readonly openUntilMs: number | null
  readonly lastFailure: FailureKind | null
}

export type BreakerPhase = 'closed' | 'open' | 'half_open'

/** What a call says about its provider. */
export type BreakerReport =
  | { readonly result: 'answered' }
  /** Nothing was learnt: cancelled, or never sent. */
  | { readonly result: 'released' }
  | { readonly result: 'failed'; readonly failure: FailureKind; readonly retryAfterMs?: number }

export const CLOSED: BreakerState = { failures: 0, openings: 0, openUntilMs: null, lastFailure: null }

/** Failures that say that the provider is ill, whatever it was asked. */
const ILL: readonly FailureKind[] = [
  'unreachable',
  'timeout',
  'overloaded',
  'server_error',
  'broken_stream',
  'garbage',
  'rate_limited',
]

export function phaseOf({ openUntilMs }: BreakerState, nowMs: number): BreakerPhase {
  if (openUntilMs === null) return 'closed'
  return nowMs < openUntilMs ? 'open' : 'half_open'
}

/**
 * The state after a report. While it is not closed only the probe's report counts: what comes from calls that began
 * before it opened is old news.
 */
export function afterReport(
  state: BreakerState,
  report: BreakerReport,
  {
    isProbe,
    isLateProbe = false,
    nowMs,
    cooldownMs,
  }: {
    readonly isProbe: boolean
    /** It began before the present cooldown, which another probe caused. */
    readonly isLateProbe?: boolean
    readonly nowMs: number
    readonly cooldownMs: number
  },
): BreakerState {
  const closed = state.openUntilMs === null
  if (!closed && !isProbe) return state
  const verdict = verdictOf(report)
  if (verdict === 'none') return state
  if (verdict === 'well') return CLOSED
  // The cooldown doubles once for all probes that fail together.
  if (isLateProbe) return state
  const { failure, retryAfterMs } = report as Extract<BreakerReport, { result: 'failed' }>
  if (failure === 'rate_limited' && retryAfterMs !== undefined && retryAfterMs > 0) {
    return {
      ...state,
      failures: 0,
      openUntilMs: nowMs + Math.min(retryAfterMs, MAX_RETRY_AFTER_MS),
      lastFailure: failure,
    }
  }
  const failures = state.failures + 1
  if (closed && failures < FAILURES_TO_OPEN) return { ...state, failures, lastFailure: failure }
  const cooldown = Math.min(cooldownMs * 2 ** Math.min(state.openings, 20), MAX_COOLDOWN_MS)
  return { failures: 0, openings: state.openings + 1, openUntilMs: nowMs + cooldown, lastFailure: failure }
}

/** Whoever refuses a request properly is well: it answered. */
function verdictOf(report: BreakerReport): 'well' | 'ill' | 'none' {
  if (report.result === 'answered') return 'well'
  if (report.result === 'released' || report.failure === 'cancelled') return 'none'
  return ILL.includes(report.failure) ? 'ill' : 'well'
}
