/** The names under which the writer thread does policy's work, with the types of what goes in and out. */
import type { Owner } from '../lib/owner.ts'
import type { Begin } from '../receipts/receipt-log.ts'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import { procedure } from '../store/store.ts'
import type { DecisionRequest } from './decision-request.ts'
import type { Envelope, StoredEnvelope } from './envelope.ts'
import type { Evaluation } from './evaluate.ts'
import type { Grant, GrantTerms } from './grant.ts'
import type { PolicyProfile } from './profiles.ts'

/** The receipt of the effect as its caller drafts it. Who, what and why come from the request and the decision. */
export type EffectReceipt = Omit<Begin, 'decision' | 'operator' | 'capability' | 'operation' | 'target'> &
  Partial<Pick<Begin, 'operator' | 'capability' | 'operation' | 'target'>>

export interface DecideInput {
  readonly request: DecisionRequest
  readonly receipt: EffectReceipt
  readonly owner: Owner
}

export interface DecideOutput {
  readonly evaluation: Evaluation
  readonly profile?: PolicyProfile
  readonly ref: ReceiptRef
  /** What was begun; absent when denied. */
  readonly begin?: Begin
}

export interface CreateEnvelopeInput {
  readonly envelope: Envelope
  readonly policyText: string
  readonly operator: string
  readonly receipt?: boolean
}

export interface CreateGrantInput {
  readonly terms: GrantTerms
  readonly expiresAtMs?: number
}

export interface GrantReceipt {
  readonly grant: Grant
  readonly receipt: ReceiptRef
}

/** Loads the engine: whoever decides for long does so from then on without its files. */
export const prepareProcedure = procedure<null, null>('policy.prepare')
export const decideProcedure = procedure<DecideInput, DecideOutput>('policy.decide')
export const createEnvelopeProcedure = procedure<CreateEnvelopeInput, StoredEnvelope>(
  'policy.create_envelope',
)
export const createGrantProcedure = procedure<CreateGrantInput, GrantReceipt>('grant.create')
export const revokeGrantProcedure = procedure<
  { readonly id: string; readonly operator: string },
  GrantReceipt
>('grant.revoke')
