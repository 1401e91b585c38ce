/** One call to a model as the rest of Craik asks for it, and how it came out. */

import type { Clock } from '../lib/clock.ts'
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import type { ReceiptLinks } from '../receipts/schema.ts'
import type { Home } from '../store/home.ts'
import type { Store } from '../store/store.ts'
import type { FailureKind } from './adapters/adapter.ts'
import type { Message, StopReason, Tool, ToolCall, Usage } from './conversation.ts'

export interface ProviderDeps {
  readonly store: Store
  readonly log: ReceiptLog
  readonly home: Home
  readonly clock: Clock
  /** Where config references such as OLLAMA_BASE_URL are read from. */
  readonly environment: NodeJS.ProcessEnv
  /** The value of a secret by its reference name. The provider path wipes it after use. */
  readonly credential: (name: string, signal: AbortSignal) => Promise<Buffer>
}

export interface ModelCall {
  readonly operator: string
  readonly providerId: string
  /** The provider's default model unless given. */
  readonly model?: string
  /** `fixture`: the provider's record and limits, the deterministic answer; nothing is dialled. */
  readonly transport: 'live' | 'fixture'
  readonly policyEnvelopeId: string
  /** The grant for `model.chat` on a provider, if there is one. Asked again for each hop of a failover. */
  readonly grantFor: (providerId: string) => Promise<string | undefined>
  readonly scope: {
    readonly session_id?: string
    readonly task_id?: string
    readonly run_id?: string
    readonly sandbox_id?: string
  }
  readonly links: Pick<ReceiptLinks, 'handoff_id' | 'backend_id'>
  readonly sandboxId?: string
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  readonly maxOutputTokens?: number
  readonly signal: AbortSignal
  /** Text as it comes. Once called, no failover happens any more. */
  readonly onText?: (text: string) => void
}

export type ModelOutcome =
  | {
      readonly outcome: 'answered'
      /** The one that answered: after a failover, not the one asked for. */
      readonly providerId: string
      readonly model: string
      readonly text: string
      readonly toolCalls: readonly ToolCall[]
      readonly stopReason: StopReason
      readonly usage: Usage
      /** Null: it has no price. */
      readonly costNanoUsd: number | null
      /** The end of the `provider_action` that answered. */
      readonly receiptId: string
      /** Everything that was written on the way, in order. */
      readonly receiptIds: readonly string[]
    }
  | {
      readonly outcome: 'denied'
      readonly providerId: string
      readonly by: 'policy' | 'budget' | 'quota' | 'provider'
      readonly rule: string
      readonly reason: string
      readonly hint: string
      readonly retryAtMs?: number
      readonly receiptId: string | undefined
      readonly receiptIds: readonly string[]
    }
  | {
      readonly outcome: 'failed'
      readonly providerId: string
      readonly failure: FailureKind
      readonly reason: string
      /** What to type next; empty when there is nothing to do. */
      readonly hint: string
      readonly receiptId: string | undefined
      readonly receiptIds: readonly string[]
    }
