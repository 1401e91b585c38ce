/** The names under which the writer thread does egress's work, with the types of what goes in and out. */
import type { Owner } from '../../lib/owner.ts'
import type { Begin } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { procedure } from '../../store/store.ts'
import type { EgressFacts } from './egress-facts.ts'
import type { EgressRequest, EgressRule, TypedRule } from './rules.ts'

/** Whose a request is, as plain data. */
export interface CallerFacts {
  readonly operator: string
  readonly policyEnvelopeId: string
  readonly sandboxId: string | undefined
  readonly scope: { readonly session_id?: string; readonly task_id?: string; readonly run_id?: string }
}

export interface AddRuleInput extends TypedRule {
  /** Whose sandboxes. */
  readonly operator: string
  readonly approvedBy: string
  /** Null: all of them. */
  readonly sandboxId: string | null
  readonly preset: string | null
  readonly expiresAtMs?: number
}

export interface RuleChange {
  readonly rule: EgressRule
  readonly receipt: ReceiptRef
}

export interface DenyHostInput {
  readonly operator: string
  readonly approvedBy: string
  readonly sandboxId: string | null
  readonly host: string
  /** Undefined: all. */
  readonly port: number | undefined
}

export interface DecideEgressInput {
  readonly caller: CallerFacts
  readonly asked: EgressRequest
  readonly isTokenEndpoint: boolean
  /** False: a denial is told and not written down; whoever asks counts it. */
  readonly isNoted: boolean
  readonly owner: Owner
}

export type DecideEgressOutput =
  | {
      readonly effect: 'allow'
      readonly ruleId: string
      readonly grantId: string
      readonly ref: ReceiptRef
      readonly begin: Begin
    }
  | {
      readonly effect: 'deny'
      readonly rule: string
      /** Of one that was not written down. */
      readonly facts?: EgressFacts
    }

export interface RefuseEgressInput {
  readonly caller: CallerFacts
  readonly facts: EgressFacts
  /** What had begun, and ends with this. */
  readonly begun?: { readonly ref: ReceiptRef; readonly begin: Begin }
}

export const addRule = procedure<AddRuleInput, RuleChange>('egress.add')
export const removeRule = procedure<{ readonly id: string; readonly operator: string }, RuleChange>(
  'egress.remove',
)
export const denyHost = procedure<
  DenyHostInput,
  { readonly removed: readonly EgressRule[]; readonly added: EgressRule | undefined }
>('egress.deny')
/** With a sandbox its rules go; how many there were. */
export const removeSandboxRules = procedure<
  { readonly sandboxId: string; readonly operator: string },
  number
>('egress.remove_sandbox')
export const decideEgress = procedure<DecideEgressInput, DecideEgressOutput>('egress.decide')
export const refuseEgress = procedure<RefuseEgressInput, ReceiptRef>('egress.refuse')
