/** The names under which the writer thread decides about volumes; each is one transaction. */
import type { Owner } from '../../lib/owner.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { procedure } from '../../store/store.ts'
import type { Begun, Denied } from '../lifecycle/tokens.ts'

export interface BeginDeleteVolumeInput {
  readonly name: string
  readonly operator: string
  readonly grantId?: string
  readonly owner: Owner
}

export type BeginDeleteVolumeOutput = Denied | { readonly effect: 'allowed'; readonly begun: Begun }

export interface EndDeleteVolumeInput {
  readonly begun: Begun
  readonly status: 'passed' | 'failed'
}

/** Refuses while a sandbox has it. */
export const beginDeleteVolume = procedure<BeginDeleteVolumeInput, BeginDeleteVolumeOutput>(
  'volumes.begin_delete',
)
export const endDeleteVolume = procedure<EndDeleteVolumeInput, ReceiptRef>('volumes.end_delete')
