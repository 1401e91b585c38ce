/** Input to a model and its output, independent of any provider's format. */
import type { Json } from '../lib/canonical-json.ts'

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** Parsed. An adapter that cannot parse them fails the call. */
  readonly arguments: { readonly [name: string]: Json }
  /** An opaque value that the provider requires back with this call, such as Gemini's thought signatures. */
  readonly echo?: string
}

export type Message =
  | { readonly role: 'system' | 'user'; readonly text: string }
  | { readonly role: 'assistant'; readonly text: string; readonly toolCalls: readonly ToolCall[] }
  | {
      readonly role: 'tool'
      readonly callId: string
      readonly name: string
      readonly text: string
      readonly failed: boolean
    }

export interface Tool {
  readonly name: string
  readonly description: string
  /** The JSON Schema of its arguments, an object. */
  readonly parameters: Json
}

export interface ModelRequest {
  readonly model: string
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  /** `undefined` leaves the limit to the provider, if the dialect allows that. */
  readonly maxOutputTokens: number | undefined
}

/** Why a model stopped. `max_tokens` means a truncated output, never a complete one. */
export type StopReason = 'end' | 'tool_calls' | 'max_tokens' | 'refused'

/** Token counts and their source. `absent` has no counts: missing counts are never zero. */
export type Usage =
  | {
      readonly source: 'measured' | 'estimated'
      /** All input, cached parts included. */
      readonly inputTokens: number
      readonly cacheReadTokens: number
      readonly cacheWriteTokens: number
      /** All output, thinking included. */
      readonly outputTokens: number
    }
  | { readonly source: 'absent' }
