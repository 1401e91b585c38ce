/**
 * The breaker's state machine, which decides when a provider is in cooldown and when it is tried again. All steps are
 * pure functions.
 */
import type { FailureKind } from '../adapters/adapter.ts'

/** The number of consecutive failures that opens a breaker. */
export const FAILURES_TO_OPEN = 3
export const FIRST_COOLDOWN_MS = 30_000
/** Each failed probe doubles the cooldown, up to this. */
export const MAX_COOLDOWN_MS = 5 * 60_000
/** The longest Retry-After of a provider that is obeyed. */
export const MAX_RETRY_AFTER_MS = 60 * 60_000

export interface BreakerState {
  /** Consecutive failures while closed. */
  readonly failures: number
  /** The number of openings without a success in between. */
  readonly openings: number
  /**
   * Null means closed. Before this time the breaker is open. Afterwards it is half-open, with one probe at a time for
   * each caller.
   */
  readonly openUntilMs: number | null
  readonly lastFailure: FailureKind | null
}

export type BreakerPhase = 'closed' | 'open' | 'half_open'

/** The result of a call, as far as it concerns its provider. */
export type BreakerReport =
  | { readonly result: 'answered' }
  /** No information: the call was cancelled, or never sent. */
  | { readonly result: 'released' }
  | { readonly result: 'failed'; readonly failure: FailureKind; readonly retryAfterMs?: number }

export const CLOSED: BreakerState = { failures: 0, openings: 0, openUntilMs: null, lastFailure: null }

/** Failures that show a provider's fault, independent of the request. */
const PROVIDER_FAILURES: readonly FailureKind[] = [
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
 * Returns the state after a report. While the breaker is not closed, only a probe's report counts: other calls began
 * before it opened.
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
    /** The probe began before the present cooldown, which another probe caused. */
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
  // Probes that fail together double the cooldown only once.
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

/** A provider that refuses a request properly works: it responded. */
function verdictOf(report: BreakerReport): 'well' | 'ill' | 'none' {
  if (report.result === 'answered') return 'well'
  if (report.result === 'released' || report.failure === 'cancelled') return 'none'
  return PROVIDER_FAILURES.includes(report.failure) ? 'ill' : 'well'
}
