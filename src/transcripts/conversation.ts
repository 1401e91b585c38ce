/**
 * A recorded conversation with an agent, in one model for all programs. Everything in it comes from the sandbox and is
 * not trusted.
 */

export const TRANSCRIPT_HARNESSES = ['claude-code', 'codex', 'gemini', 'opencode', 'kimi'] as const
export type TranscriptHarness = (typeof TRANSCRIPT_HARNESSES)[number]

export interface Conversation {
  readonly harness: TranscriptHarness
  /** The program's own id. Contains only letters, digits and `._-`. */
  readonly id: string
  /** The file that it was read from, relative to the home. */
  readonly path: string
  readonly startedAtMs?: number
  readonly updatedAtMs?: number
  /** The folder that the agent worked in, as the agent reported it. */
  readonly cwd?: string
  readonly model?: string
  /** The program's own title. Without it, the first prompt is the name. */
  readonly title?: string
  readonly turns: readonly TranscriptTurn[]
  readonly usage?: RecordedUsage
  readonly damage: Damage
}

export interface TranscriptTurn {
  readonly role: 'user' | 'assistant'
  readonly atMs?: number
  /** In the order of arrival, because an agent also writes text between its tool calls. */
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
  /** Undefined when the call has no result. */
  readonly output?: string
  readonly ok?: boolean
}

export interface RecordedUsage {
  readonly inputTokens: number
  readonly outputTokens: number
}

/** The parts of a file that could not be read or were left out. */
export interface Damage {
  /** The lines or rows with unexpected content. */
  readonly damaged: number
  /** The lines or rows that were too long to read. */
  readonly oversized: number
  /** The last line is incomplete, because its writer is still running or was killed. */
  readonly unfinished: boolean
  /** It exceeds a limit, and only its beginning was read. */
  readonly cut: boolean
}

/** Returns the text of a turn without thinking and tools. */
export function turnText(turn: TranscriptTurn): string {
  return turn.parts
    .filter((part) => part.type === 'text')
    .map(({ text }) => text)
    .join('\n\n')
}

/** Returns the name that the user recognizes: the program's title, or the first line of the first prompt. */
export function nameOf({ title, turns }: Pick<Conversation, 'title' | 'turns'>): string {
  const first = turns.find(({ role }) => role === 'user')
  const [line = ''] = (first === undefined ? '' : turnText(first)).trim().split('\n', 1)
  return title ?? line
}
