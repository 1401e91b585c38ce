/** What is said to a model and what it answers, in no provider's own words. */
import type { Json } from '../lib/canonical-json.ts'

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** Parsed; an adapter that cannot parse them fails the call. */
  readonly arguments: { readonly [name: string]: Json }
  /** Opaque; the provider wants it back with this call, as Gemini does with its thought signatures. */
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
  /** JSON Schema of its arguments, an object. */
  readonly parameters: Json
}

export interface ModelRequest {
  readonly model: string
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  /** Undefined: as much as the provider likes, where the dialect allows to say nothing. */
  readonly maxOutputTokens: number | undefined
}

/** Why a model stopped. `max_tokens` is an answer that was cut, never a complete one. */
export type StopReason = 'end' | 'tool_calls' | 'max_tokens' | 'refused'

/** Token counts, and where they come from. `absent` has no counts: never a silent zero. */
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
