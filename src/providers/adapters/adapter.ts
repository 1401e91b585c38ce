/** What every provider family's adapter does: spell a request in its dialect, send it, read the answer as it comes. */
import type { ModelRequest, StopReason, ToolCall, Usage } from '../conversation.ts'

/** The wire formats. A provider family speaks one or more of them. */
export type Dialect = 'anthropic_messages' | 'openai_responses' | 'chat_completions' | 'gemini' | 'fixture'

export interface Adapter {
  readonly dialect: Dialect
  /** False where the dialect insists on an output cap, so that a missing one has to be set. */
  readonly mayOmitOutputCap: boolean
  /** The whole body as it will be sent. Its length in bytes bounds the input tokens. */
  encode(request: ModelRequest): string
  /**
   * Sends what `encode` made and yields the answer as it comes. Ends with exactly one `end`, or throws a
   * `provider_failed` error whose details are a `Failure`. Cancelling the signal closes the connection.
   */
  call(
    endpoint: Endpoint,
    request: ModelRequest,
    body: string,
    signal: AbortSignal,
  ): AsyncIterable<ModelEvent>
}

export type ModelEvent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'tool_call'; readonly call: ToolCall }
  /** May come more than once; the last one counts. Before a failure it is an estimate of what was used so far. */
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'end'; readonly reason: StopReason; readonly model: string | undefined }

export interface Endpoint {
  /** Without a trailing slash, with its version segment, such as `https://api.openai.com/v1`. */
  readonly baseUrl: string
  /** Dials loopback addresses only, without asking DNS. */
  readonly loopbackOnly: boolean
  /** The value itself, in memory for this call; undefined for endpoints that take none. The caller wipes it. */
  readonly credential: Buffer | undefined
  readonly connectTimeoutMs: number
  /** Until the first byte of the answer. */
  readonly headersTimeoutMs: number
  /** Between two pieces of the answer. */
  readonly idleTimeoutMs: number
}

/** What went wrong with a call. Rules of failover name these. */
export const FAILURE_KINDS = [
  'unreachable',
  'timeout',
  'rate_limited',
  'overloaded',
  'server_error',
  'unauthorized',
  'rejected',
  'broken_stream',
  'garbage',
  'cancelled',
] as const
export type FailureKind = (typeof FAILURE_KINDS)[number]

export interface Failure {
  readonly failure: FailureKind
  /** The HTTP status, if there was an answer. */
  readonly status: number | undefined
  readonly retryAfterMs: number | undefined
  /** False: the provider surely got nothing, so nothing was spent. */
  readonly sent: boolean
  /** Whether the provider refused before it began to answer: such calls are not billed. */
  readonly refused: boolean
}
