/** What the gateway has to know of a wire format to pass it on: what is asked, where the cap stands, when it is over. */
import type { Account, AccountFamily } from '../../../accounts/account.ts'
import type { FailureKind, Dialect as WireDialect } from '../../../providers/adapters/adapter.ts'
import type { KnownNames } from '../../../providers/adapters/refusal.ts'
import type { JsonFault, LookInto, Members } from '../json-members.ts'
import type { AnswerReader } from './answer-reader.ts'

export interface Dialect {
  /** As routes are told apart: Code Assist is Gemini in another envelope. */
  readonly name: 'anthropic_messages' | 'openai_responses' | 'chat_completions' | 'gemini' | 'code_assist'
  /** As provider records and receipts name it. */
  readonly wire: Exclude<WireDialect, 'fixture'>
  /** Whom a request without a provider's name is for. */
  readonly providerId: string
  readonly family: AccountFamily
  /** Which logins speak it; the first in order that does is used. */
  readonly spokenBy: (account: Account) => boolean
  /** Whether a login lets a cap be set that the client did not name. */
  readonly takesCap: (account: Account | undefined) => boolean
  /** The members of a body whose own members are read too. */
  readonly lookInto: LookInto
  /** What a body asks for. `model` is the one in the path, where the dialect has it there. */
  readonly ask: (body: ScannedBody, model: string | undefined) => ModelRequest | Malformed
  readonly reader: () => AnswerReader
  /** The dialect's own error, as a body. */
  readonly errorBody: (error: DialectError) => string
  /** The same in the middle of a stream: what makes a client see that the answer is not whole. */
  readonly errorEvent: (error: DialectError) => string
}

/** A body, with what the scanner found in it. */
export interface ScannedBody {
  readonly bytes: Buffer
  readonly members: Members | JsonFault
}

export interface ModelRequest {
  readonly model: string
  /** Null: no cap is named. */
  readonly maxOutputTokens: number | null
  /** It may cost more than its bytes and the table of prices tell. */
  readonly unpriced: boolean
  /** The body with these changed and every other byte as it was. The base URL tells whose name of the cap is right. */
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
  /** As the provider itself calls it; without them, as the status is usually called. */
  readonly names?: KnownNames
}

/** The status of an answer for what went wrong on the other side. */
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
