/** The names under which the writer thread admits a model call and settles it, with what goes in and out. */
import type { HoldId } from '../../lib/ids.ts'
import type { Owner } from '../../lib/owner.ts'
import type { DecisionRequest } from '../../policy/decision-request.ts'
import type { DecideOutput, EffectReceipt } from '../../policy/tokens.ts'
import type { Begin, Outcome } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { procedure } from '../../store/store.ts'
import type { Usage } from '../conversation.ts'

/** Integers: nano-dollars per million tokens. A model with price tiers is held at its dearest. */
export interface Price {
  readonly inputNanoUsdPerMtok: number
  readonly cacheReadNanoUsdPerMtok: number
  readonly cacheWriteNanoUsdPerMtok: number
  readonly outputNanoUsdPerMtok: number
}

/** Who pays how: by the token, by a subscription (counted in tokens only), or nobody (a local model, the fixture). */
export type Billing = 'metered' | 'subscription' | 'free'

export interface AdmitInput {
  /** `model.chat` on the provider. */
  readonly request: DecisionRequest
  /** The `provider_action` receipt, as its caller drafts it. */
  readonly receipt: EffectReceipt
  readonly owner: Owner
  /** False: a denial is told and not written down; whoever asks counts it. */
  readonly isNoted?: boolean
  readonly call: {
    readonly providerId: string
    readonly model: string
    readonly billing: Billing
    /** Null: not known, which is not free. */
    readonly price: Price | null
    /** Of the table that the price was read from. */
    readonly priceDigest?: string
    /** The length of the encoded request: no input has more tokens than bytes. */
    readonly inputBytes: number
    /** What the caller asked for; null: nothing. */
    readonly maxOutputTokens: number | null
    /** Whether the dialect lets Craik set or lower a cap. All of ours do. */
    readonly capCanBeSet: boolean
    readonly sandboxId?: string
  }
}

export type AdmitOutput =
  | {
      readonly effect: 'allow'
      /** The `provider_action` that has begun. */
      readonly ref: ReceiptRef
      readonly begin: Begin
      readonly hold: {
        readonly id: HoldId
        /** What the request has to be sent with; null: no cap is needed. */
        readonly maxOutputTokens: number | null
        /** The caller asked for more, or for no cap. */
        readonly lowered: boolean
      }
      /** The `budget` receipt of the reservation. */
      readonly budgetReceipt: ReceiptRef
    }
  | { readonly effect: 'deny'; readonly by: 'policy'; readonly decision: Told<DecideOutput> }
  | {
      readonly effect: 'deny'
      readonly by: 'budget' | 'quota'
      /** Such as `budget.exhausted`, `budget.unpriced`, `quota.requests_per_minute`. */
      readonly rule: string
      /** The budget or quota that said no. */
      readonly subject: string
      /** One line for a person: what is left of what, in dollars or tokens. */
      readonly reason: string
      /** What to do about it. */
      readonly hint: string
      /** When it may work again; absent for what time does not mend. */
      readonly retryAtMs?: number
      readonly receipt: ReceiptRef | undefined
    }

/** Without a receipt where none was written. */
type Told<Decided extends DecideOutput> = Omit<Decided, 'ref'> & { readonly ref: ReceiptRef | undefined }

export interface SettleInput {
  readonly holdId: HoldId
  /** The `provider_action` receipt that `admit` began, and what its end says. */
  readonly open: { readonly ref: ReceiptRef; readonly begin: Begin }
  readonly end: Outcome
  /**
   * `spent`: book what was used (`absent` books the whole hold).
   * `nothing`: the provider got nothing or refused before it began; the hold is released.
   */
  readonly result: { readonly kind: 'spent'; readonly usage: Usage } | { readonly kind: 'nothing' }
}

export interface SettleOutput {
  /** The `provider_action` end. */
  readonly ref: ReceiptRef
  readonly budgetReceipt: ReceiptRef
  /** Null: it has no price. */
  readonly costNanoUsd: number | null
  readonly overrun: boolean
}

/** Whether a call would be denied, before its body is known: a denial is written down, and nothing is admitted. */
export const checkCall = procedure<AdmitInput, Extract<AdmitOutput, { effect: 'deny' }> | null>(
  'providers.check',
)
/** Policy, quota and every budget that applies, the hold and both receipts: one transaction. */
export const admitCall = procedure<AdmitInput, AdmitOutput>('providers.admit')
/** Balances, the hold and both receipts: one transaction. Settling twice is a conflict. */
export const settleCall = procedure<SettleInput, SettleOutput>('providers.settle')
