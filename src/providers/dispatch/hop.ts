/** A call on its way to one provider, and how that came out. */
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import type { ReceiptLinks } from '../../receipts/schema.ts'
import type { FailureKind } from '../adapters/adapter.ts'
import type { StopReason, ToolCall, Usage } from '../conversation.ts'
import type { ModelCall, ModelOutcome, ProviderDeps } from '../dispatch-types.ts'
import type { ProviderRecord } from '../provider-record.ts'

/** Whose call it is and what it belongs to, whatever is said in it. */
export type CallIdentity = Pick<
  ModelCall,
  'operator' | 'policyEnvelopeId' | 'grantFor' | 'scope' | 'links' | 'sandboxId' | 'transport'
>

/** Which refusals of a caller have receipts of their own, where it could ask for ever more of them. */
export interface RefusalNotes {
  /** Whether the next one may; `spend` then says that it has. */
  isSingle(): boolean
  spend(): void
  /** One more that has none. */
  count(rule: string, target: string): void
  /** What led on from one that has none: written as soon as something is to happen, and never if nothing does. */
  readonly due: (() => Promise<unknown>)[]
}

export interface Hop {
  readonly place: Pick<ProviderDeps, 'store' | 'log' | 'clock'>
  readonly call: CallIdentity
  readonly record: ProviderRecord
  /** The first cooldown of a breaker that opens; undefined: the usual one. */
  readonly cooldownMs: number | undefined
  /** Every receipt of the call so far, in order; what is written here is added. */
  readonly written: string[]
  /** Absent: each refusal has its receipt. */
  readonly refusals?: RefusalNotes
}

/** One whose conversation is known here, and not only its bytes. */
export interface ModelHop extends Hop {
  readonly place: ProviderDeps
  readonly call: ModelCall
}

export type Attempt =
  | {
      readonly kind: 'answered'
      readonly model: string
      readonly text: string
      readonly toolCalls: readonly ToolCall[]
      readonly stopReason: StopReason
      readonly usage: Usage
      readonly costNanoUsd: number | null
      readonly receiptId: string
    }
  | Unanswered

export type Unanswered = ({ readonly kind: 'denied' } & Denial) | Failed

export interface Failed {
  readonly kind: 'failed'
  readonly failure: FailureKind
  readonly reason: string
  readonly hint: string
  /** Undefined: it is one of a flood, and only counted. */
  readonly receiptId: string | undefined
  readonly contentPassedOn: boolean
}

export interface Denial {
  readonly rule: string
  readonly reason: string
  readonly hint: string
  readonly by: Extract<ModelOutcome, { outcome: 'denied' }>['by']
  readonly retryAtMs?: number
  /** Undefined: it is one of a flood, and only counted. */
  readonly receiptId: string | undefined
  /** The failure that it is left alone for, so that rules of failover may be about it. */
  readonly failure?: FailureKind
}

/** What every receipt of a call refers to. */
export function linksOf({ call, record }: Hop): ReceiptLinks {
  return { ...call.links, provider_id: record.id }
}

/** In the order in which they were written. */
export function idsOf(...refs: readonly ReceiptRef[]): string[] {
  return [...refs].sort((a, b) => a.seq - b.seq).map(({ id }) => id)
}
