/** One model for what was said in an agent session, whichever program kept it. All of it is the guest's own word. */

export const TRANSCRIPT_HARNESSES = ['claude-code', 'codex', 'gemini', 'opencode', 'kimi'] as const
export type TranscriptHarness = (typeof TRANSCRIPT_HARNESSES)[number]

export interface Conversation {
  readonly harness: TranscriptHarness
  /** As the program calls it; letters, digits and `._-` only. */
  readonly id: string
  /** The file it was read from, relative to the home. */
  readonly path: string
  readonly startedAtMs?: number
  readonly updatedAtMs?: number
  /** The folder that the agent worked in, as it says. */
  readonly cwd?: string
  readonly model?: string
  /** What the program calls it; otherwise its first prompt is its name. */
  readonly title?: string
  readonly turns: readonly Turn[]
  readonly usage?: RecordedUsage
  readonly damage: Damage
}

export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly atMs?: number
  /** In the order in which they came: an agent speaks between its tool calls. */
  readonly parts: readonly Part[]
}

export type Part =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'thinking'; readonly text: string }
  | RecordedToolCall

export interface RecordedToolCall {
  readonly type: 'tool'
  readonly name: string
  readonly input: string
  /** Undefined: it never came back. */
  readonly output?: string
  readonly ok?: boolean
}

export interface RecordedUsage {
  readonly inputTokens: number
  readonly outputTokens: number
}

/** What could not be read of a file, or was left out of it. */
export interface Damage {
  /** Lines or rows that are not what they should be. */
  readonly damaged: number
  /** Lines or rows too long to be read. */
  readonly oversized: number
  /** The last line has no end yet: its writer is at work, or was killed. */
  readonly unfinished: boolean
  /** It goes beyond a limit, and only its beginning was read. */
  readonly cut: boolean
}

/** What a turn says, without thinking and tools. */
export function turnText(turn: Turn): string {
  return turn.parts
    .filter((part) => part.type === 'text')
    .map(({ text }) => text)
    .join('\n\n')
}

/** What a person knows it by: the first line that a user wrote, unless the program has a title. */
export function nameOf({ title, turns }: Pick<Conversation, 'title' | 'turns'>): string {
  const first = turns.find(({ role }) => role === 'user')
  const [line = ''] = (first === undefined ? '' : turnText(first)).trim().split('\n', 1)
  return title ?? line
}
