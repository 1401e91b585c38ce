/** The table of circuit breakers, with one row for each provider that failed recently. */
import type { Owner } from '../lib/owner.ts'

export interface ProbeRow {
  readonly id: string
  /** The sandbox that makes the call. Null for the operator's own call. */
  readonly caller: string | null
  readonly owner: Owner
  readonly sinceMs: number
}

export interface BreakerRow {
  readonly providerId: string
  readonly failures: number
  readonly openings: number
  readonly openUntilMs: number | null
  readonly lastFailure: string | null
  /** The calls that the half-open breaker allows: one for each caller. */
  readonly probes: readonly ProbeRow[]
  readonly updatedAtMs: number
}

export interface BreakerTable {
  put(row: BreakerRow): Promise<void>
  get(providerId: string): Promise<BreakerRow | undefined>
  list(): Promise<readonly BreakerRow[]>
  remove(providerId: string): Promise<boolean>
}
