/** The table of breakers: one row for each provider that failed lately. */
import type { Owner } from '../lib/owner.ts'

export interface ProbeRow {
  readonly id: string
  /** The sandbox whose call it is; null: the operator's own. */
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
  /** The calls that are let through while half-open: one for each caller. */
  readonly probes: readonly ProbeRow[]
  readonly updatedAtMs: number
}

export interface BreakerTable {
  put(row: BreakerRow): Promise<void>
  get(providerId: string): Promise<BreakerRow | undefined>
  list(): Promise<readonly BreakerRow[]>
  remove(providerId: string): Promise<boolean>
}
