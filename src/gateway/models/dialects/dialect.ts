/** The gateway's view of a wire format: the fields of a request, its output limit, and the end of a response. */
import type { Account, AccountFamily } from '../../../accounts/account.ts'
import type { FailureKind, Dialect as WireDialect } from '../../../providers/adapters/adapter.ts'
import type { KnownNames } from '../../../providers/adapters/refusal.ts'
import type { JsonFault, LookInto, Members } from '../json-members.ts'
import type { AnswerReader } from './answer-reader.ts'

export interface GatewayDialect {
  /** The name that distinguishes routes: Code Assist is Gemini in another envelope. */
  readonly name: 'anthropic_messages' | 'openai_responses' | 'chat_completions' | 'gemini' | 'code_assist'
  /** The name in provider records and receipts. */
  readonly wire: Exclude<WireDialect, 'fixture'>
  /** The provider for a request that names none. */
  readonly providerId: string
  readonly family: AccountFamily
  /** Whether a login supports the dialect. The first such login is used. */
  readonly usedBy: (account: Account) => boolean
  /** Whether a login allows an output limit that the client did not set. */
  readonly takesCap: (account: Account | undefined) => boolean
  /** The members of a body whose own members are read too. */
  readonly lookInto: LookInto
  /** Reads the request from a body. `model` is the model in the path, for dialects that have it there. */
  readonly ask: (body: ScannedBody, model: string | undefined) => DialectRequest | Malformed
  readonly reader: () => AnswerReader
  /** Returns the dialect's own error as a body. */
  readonly errorBody: (error: DialectError) => string
  /** Returns the error as an event of a stream, so that the client sees that the response is incomplete. */
  readonly errorEvent: (error: DialectError) => string
}

/** A body with the scanner's results. */
export interface ScannedBody {
  readonly bytes: Buffer
  readonly members: Members | JsonFault
}

export interface DialectRequest {
  readonly model: string
  /** Null when the request sets no limit. */
  readonly maxOutputTokens: number | null
  /** Whether it may cost more than its size and the price table suggest. */
  readonly unpriced: boolean
  /**
   * Returns the body with these changes and all other bytes unchanged. The base URL determines the name of the limit's
   * field.
   */
  readonly spelled: (changes: RequestChanges, baseUrl: string) => Buffer
}

export interface RequestChanges {
  readonly cap?: number
  readonly model?: string
}

export interface Malformed {
  readonly malformed: string
}

export interface DialectError {
  readonly status: number
  readonly message: string
  /** The provider's own error names. Without them, the usual names of the status. */
  readonly names?: KnownNames
}

/** Returns the HTTP status for an upstream failure. */
export function statusOfFailure(failure: FailureKind): number {
  switch (failure) {
    case 'rate_limited':
      return 429
    case 'overloaded':
      return 503
    case 'timeout':
      return 504
    case 'rejected':
      return 502
    case 'unauthorized':
      return 401
    default:
      return 502
  }
}
