/** The output of readers: small entries in the order of the conversation, which `assemble` combines. */
import type { Damage } from './conversation.ts'

export type TranscriptEntry =
  /** Another conversation starts. */
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
  /** The last prompts, and everything after them, were undone. */
  | { readonly type: 'undo'; readonly count: number }
  /** This is not a conversation of the user but one between agents. */
  | { readonly type: 'discard' }
  | { readonly type: 'damage'; readonly damage: Partial<Damage> }
  /** Why the rest of the file, or all of it, is not read. It applies to the whole file. */
  | { readonly type: 'problem'; readonly problem: string }

export interface Facts {
  /** For this and `cwd`, the first value counts. */
  readonly startedAtMs?: number | undefined
  readonly cwd?: string | undefined
  /** For this and `title`, the last value counts. */
  readonly model?: string | undefined
  readonly title?: string | undefined
  /** The total of the conversation so far. */
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number } | undefined
  readonly updatedAtMs?: number | undefined
}
