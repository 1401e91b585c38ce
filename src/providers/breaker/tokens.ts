/** The names under which the writer thread keeps breakers, with what goes in and out. */
import type { Owner } from '../../lib/owner.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { procedure } from '../../store/store.ts'
import type { FailureKind } from '../adapters/adapter.ts'
import type { BreakerReport } from './breaker-state.ts'

export interface BreakerAdmitInput {
  readonly providerId: string
  readonly owner: Owner
  /** The sandbox that calls; null: the operator. */
  readonly caller: string | null
  /** Names the probe, should this call become one. */
  readonly probeId: string
}

export type BreakerAdmission =
  | { readonly admitted: true; readonly probeId: string | undefined }
  | {
      readonly admitted: false
      /** `probing`: half-open, and another call of the same caller is finding out. */
      readonly phase: 'open' | 'probing'
      readonly lastFailure: FailureKind
      readonly nowMs: number
      readonly openUntilMs: number
      /** When it may be worth asking again. */
      readonly retryAtMs: number
    }

export interface BreakerReportInput {
  readonly providerId: string
  readonly probeId: string | undefined
  readonly report: BreakerReport
  /** How long the first cooldown lasts. */
  readonly cooldownMs: number
}

export interface BreakerResetInput {
  readonly providerId: string
  readonly operator: string
}

export interface BreakerReset {
  readonly lastFailure: string | null
  /** Until when it would have been left alone; null: it was not. */
  readonly openUntilMs: number | null
  readonly receipt: ReceiptRef
}

export const breakerAdmit = procedure<BreakerAdmitInput, BreakerAdmission>('providers.breaker_admit')
/** Closes a breaker by hand, with a receipt. One that has nothing to tell is a `conflict`. */
export const breakerReset = procedure<BreakerResetInput, BreakerReset>('providers.breaker_reset')
export const breakerReport = procedure<BreakerReportInput, void>('providers.breaker_report')
