/** The names under which the writer thread does the sandboxes' work, with the types of what goes in and out. */
import type { Owner } from '../lib/owner.ts'
import type { DecisionRequest } from '../policy/decision-request.ts'
import type { Evaluation } from '../policy/evaluate.ts'
import type { PolicyProfile } from '../policy/profiles.ts'
import type { Begin } from '../receipts/receipt-log.ts'
import type { ReceiptRef } from '../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../receipts/schema.ts'
import { procedure } from '../store/store.ts'
import type { Isolation } from './backend.ts'
import type { SandboxRefusal } from './evaluate-sandbox-request.ts'
import type { SandboxRequest } from './sandbox-request.ts'

export interface SandboxDecideInput {
  readonly request: SandboxRequest
  /** The strongest isolation that this machine reaches. */
  readonly reachable: Isolation
  /** Added to the receipt: who else it belongs to. */
  readonly links: ReceiptDraft['links']
  readonly owner: Owner
}

export type SandboxDecideOutput = {
  readonly ref: ReceiptRef
} & (
  | { readonly effect: 'refused'; readonly refusal: SandboxRefusal }
  | {
      readonly effect: 'denied'
      readonly evaluation: Evaluation
      readonly asked: DecisionRequest
      readonly profile?: PolicyProfile
    }
  | {
      readonly effect: 'allowed'
      readonly evaluation: Evaluation
      readonly begin: Begin
      /** What the reference stood for when it was decided; absent for what is no command of ours. */
      readonly argv?: readonly string[]
    }
)

export const sandboxDecideProcedure = procedure<SandboxDecideInput, SandboxDecideOutput>('sandbox.decide')

/** False when it was registered before. */
export const ensureFixtureActionProcedure = procedure<{ readonly operator: string }, boolean>(
  'sandbox.ensure_fixture_action',
)
