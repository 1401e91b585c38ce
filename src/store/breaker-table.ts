/** The table of breakers: one row for each provider that failed lately. */
import type { Owner } from '../lib/owner.ts'

interface ProbeRow {
  readonly id: string
  readonly owner: Owner
  readonly sinceMs: number
}

export interface BreakerRow {
  readonly providerId: string
  readonly failures: number
  readonly openings: number
  readonly openUntilMs: number | null
  readonly lastFailure: string | null
  /** The one call that is let through while half-open. */
  readonly probe: ProbeRow | null
  readonly updatedAtMs: number
}

export interface BreakerTable {
  put(row: BreakerRow): Promise<void>
  get(providerId: string): Promise<BreakerRow | undefined>
  list(): Promise<readonly BreakerRow[]>
  remove(providerId: string): Promise<boolean>
}
