/** What readers make of a file: small steps in the order of the conversation, put together by `assemble`. */
import type { Damage } from './conversation.ts'

export type TranscriptEntry =
  /** Another conversation begins. */
  | { readonly type: 'begin'; readonly id: string }
  | ({ readonly type: 'facts' } & Facts)
  | { readonly type: 'user'; readonly atMs?: number | undefined; readonly text: string }
  | { readonly type: 'text' | 'thinking'; readonly atMs?: number | undefined; readonly text: string }
  | {
      readonly type: 'call'
      readonly atMs?: number | undefined
      readonly callId: string
      readonly name: string
      readonly input: unknown
    }
  | {
      readonly type: 'result'
      readonly callId: string
      readonly output: string
      readonly ok?: boolean | undefined
    }
  /** The last prompts, with what came after them, were taken back. */
  | { readonly type: 'undo'; readonly count: number }
  /** It is no conversation of the user's after all, but one of an agent with another. */
  | { readonly type: 'discard' }
  | { readonly type: 'damage'; readonly damage: Partial<Damage> }
  /** Why the rest of the file, or all of it, is not read; said of the file. */
  | { readonly type: 'problem'; readonly problem: string }

export interface Facts {
  /** The first one counts. */
  readonly startedAtMs?: number | undefined
  readonly cwd?: string | undefined
  /** Of these the last one counts. */
  readonly model?: string | undefined
  readonly title?: string | undefined
  /** Of all of it so far. */
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number } | undefined
  readonly updatedAtMs?: number | undefined
}
