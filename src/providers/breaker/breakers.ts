/** Checks a provider's breaker before a call and reports the call's result. All processes share the breakers. */
import type { Clock } from '../../lib/clock.ts'
import { newId } from '../../lib/ids.ts'
import type { Owner } from '../../lib/owner.ts'
import type { BreakerRow } from '../../store/breaker-table.ts'
import type { Store } from '../../store/store.ts'
import type { FailureKind } from '../adapters/adapter.ts'
import {
  type BreakerPhase,
  type BreakerReport,
  type BreakerState,
  CLOSED,
  FIRST_COOLDOWN_MS,
  phaseOf,
} from './breaker-state.ts'
import { type BreakerAdmission, breakerAdmit, breakerReport } from './tokens.ts'

interface BreakerDeps {
  readonly store: Store
  readonly clock: Clock
  readonly owner: Owner
}

/**
 * Costs a read while the breaker is closed, and a write only when it is half-open and this call can become its probe.
 */
export async function checkBreaker(
  { store, clock, owner }: BreakerDeps,
  providerId: string,
  caller: string | null,
): Promise<BreakerAdmission> {
  const nowMs = clock.nowMs()
  const row = await store.read((tables) => tables.breakers.get(providerId))
  const known = admissionWithoutProbe(row, nowMs)
  if (known !== undefined) return known
  return store.write(breakerAdmit, { providerId, owner, caller, probeId: newId('probe', nowMs) })
}

/**
 * Decides for a call that never becomes a probe. It is allowed as soon as the cooldown is over. Otherwise a program
 * that counts tokens before its first call would wait for a probe that never comes.
 */
export async function checkBreakerWithoutProbe(
  { store, clock }: Pick<BreakerDeps, 'store' | 'clock'>,
  providerId: string,
): Promise<BreakerAdmission> {
  const row = await store.read((tables) => tables.breakers.get(providerId))
  return admissionWithoutProbe(row, clock.nowMs()) ?? { admitted: true, probeId: undefined }
}

/** Writes only reports that change the state. A success of a provider that never failed is not written. */
export async function reportToBreaker(
  { store }: Pick<BreakerDeps, 'store'>,
  providerId: string,
  probeId: string | undefined,
  report: BreakerReport,
  cooldownMs = FIRST_COOLDOWN_MS,
): Promise<void> {
  const quiet = probeId === undefined && report.result !== 'failed'
  if (quiet && (await store.read((tables) => tables.breakers.get(providerId))) === undefined) return
  await store.write(breakerReport, { providerId, probeId, report, cooldownMs })
}

/** Returns the decision without a write. `undefined` when the breaker is half-open, which needs a turn. */
export function admissionWithoutProbe(
  row: BreakerRow | undefined,
  nowMs: number,
): BreakerAdmission | undefined {
  const state = breakerState(row)
  const phase = phaseOf(state, nowMs)
  if (phase === 'closed') return { admitted: true, probeId: undefined }
  if (phase === 'half_open') return undefined
  const openUntilMs = state.openUntilMs!
  return {
    admitted: false,
    phase: 'open',
    lastFailure: state.lastFailure!,
    nowMs,
    openUntilMs,
    retryAtMs: openUntilMs,
  }
}

export function breakerState(row: BreakerRow | undefined): BreakerState {
  if (row === undefined) return CLOSED
  const { failures, openings, openUntilMs, lastFailure } = row
  return { failures, openings, openUntilMs, lastFailure: lastFailure as FailureKind | null }
}

export interface BreakerStatus {
  readonly providerId: string
  readonly phase: BreakerPhase
  readonly failures: number
  readonly lastFailure: string | null
  /** When a probe is allowed. Null while closed. */
  readonly openUntilMs: number | null
  readonly probing: boolean
}

/** Returns every provider whose breaker has recorded failures. */
export async function breakerStates(store: Store, nowMs: number): Promise<readonly BreakerStatus[]> {
  const rows = await store.read((tables) => tables.breakers.list())
  return rows.map((row) => ({
    providerId: row.providerId,
    phase: phaseOf(breakerState(row), nowMs),
    failures: row.failures,
    lastFailure: row.lastFailure,
    openUntilMs: row.openUntilMs,
    probing: row.probes.length > 0,
  }))
}
