/** Combines the entries of readers into turns, with tool calls and their results, within limits and without secrets. */

import { type Redact, truncateText } from './clean-text.ts'
import type {
  Conversation,
  Damage,
  Part,
  RecordedUsage,
  TranscriptHarness,
  TranscriptTurn,
} from './conversation.ts'
import type { Facts, TranscriptEntry } from './transcript-entries.ts'
import { TRANSCRIPT_LIMITS as LIMITS } from './transcript-limits.ts'
import { idIn, inputText, nameIn } from './transcript-values.ts'

export interface AssembleOptions {
  readonly harness: TranscriptHarness
  readonly path: string
  readonly redact: Redact
  /** Receives the problems of the file as a whole. */
  readonly onProblem?: (problem: string) => void
}

/** Yields one conversation after the other. Skips a conversation without turns. */
export async function* assemble(
  entries: AsyncIterable<TranscriptEntry>,
  options: AssembleOptions,
): AsyncGenerator<Conversation> {
  let current: Assembly | undefined
  for await (const entry of entries) {
    if (entry.type === 'problem') options.onProblem?.(entry.problem)
    else if (entry.type !== 'begin') current?.take(entry)
    if (entry.type !== 'begin') continue
    const done = current?.conversation()
    if (done !== undefined) yield done
    current = new Assembly(entry.id, options)
  }
  const last = current?.conversation()
  if (last !== undefined) yield last
}

interface MutableTurn {
  readonly role: 'user' | 'assistant'
  atMs?: number
  readonly parts: Part[]
}

type Step = Exclude<TranscriptEntry, { type: 'begin' | 'problem' }>

class Assembly {
  readonly #id: string
  readonly #options: AssembleOptions
  readonly #turns: MutableTurn[] = []
  /** The calls that have no result yet, with their turn and part. */
  #open = new Map<string, { readonly turn: MutableTurn; readonly part: number }>()
  readonly #facts: { -readonly [Name in keyof Facts]?: Facts[Name] } = {}
  readonly #damage = { damaged: 0, oversized: 0, unfinished: false, cut: false }
  #chars = 0
  #updatedAtMs = 0
  #isDiscarded = false

  constructor(id: string, options: AssembleOptions) {
    this.#id = idIn(id, options.path)
    this.#options = options
  }

  take(entry: Step): void {
    if (entry.type === 'facts') this.#learn(entry)
    else if (entry.type === 'damage') this.#note(entry.damage)
    else if (entry.type === 'discard') this.#isDiscarded = true
    else if (entry.type === 'undo') this.#undo(entry.count)
    else if (entry.type === 'result') this.#result(entry)
    else this.#say(entry)
  }

  conversation(): Conversation | undefined {
    if (this.#isDiscarded || this.#turns.length === 0) return undefined
    const { startedAtMs, cwd, model, title, usage } = this.#facts
    const started = startedAtMs ?? this.#turns.find(({ atMs }) => atMs !== undefined)?.atMs
    const names = { cwd: this.#name(cwd), model: this.#name(model), title: this.#name(title) }
    return {
      harness: this.#options.harness,
      id: this.#id,
      path: this.#options.path,
      ...(started !== undefined && { startedAtMs: started }),
      ...(this.#updatedAtMs > 0 && { updatedAtMs: this.#updatedAtMs }),
      ...(names.cwd !== undefined && { cwd: names.cwd }),
      ...(names.model !== undefined && { model: names.model }),
      ...(names.title !== undefined && { title: names.title }),
      turns: this.#turns satisfies TranscriptTurn[],
      ...(usage !== undefined && { usage: usage satisfies RecordedUsage }),
      damage: { ...this.#damage },
    }
  }

  #say(entry: Extract<Step, { type: 'user' | 'text' | 'thinking' | 'call' }>): void {
    if (entry.atMs !== undefined) this.#updatedAtMs = Math.max(this.#updatedAtMs, entry.atMs)
    const part = this.#partOf(entry)
    if (part === undefined) return
    const role = entry.type === 'user' ? 'user' : 'assistant'
    const turn = this.#turnOf(role, entry.atMs)
    if (turn === undefined || turn.parts.length >= LIMITS.partsOfTurn || !this.#fits(part)) {
      this.#damage.cut = true
      return
    }
    if (turn.parts.length === 0) this.#turns.push(turn)
    turn.parts.push(part)
    if (entry.type === 'call') this.#open.set(entry.callId, { turn, part: turn.parts.length - 1 })
  }

  #partOf(entry: Extract<Step, { type: 'user' | 'text' | 'thinking' | 'call' }>): Part | undefined {
    const { redact } = this.#options
    if (entry.type === 'call') {
      const name = this.#name(entry.name) ?? 'tool'
      return {
        type: 'tool',
        name,
        input: truncateText(inputText(entry.input), LIMITS.toolInputChars, redact),
      }
    }
    const isThinking = entry.type === 'thinking'
    const text = truncateText(entry.text, isThinking ? LIMITS.thinkingChars : LIMITS.textChars, redact).trim()
    return text === '' ? undefined : { type: isThinking ? 'thinking' : 'text', text }
  }

  /** Each prompt is one turn. Everything that the assistant says and does until the next prompt is another turn. */
  #turnOf(role: MutableTurn['role'], atMs: number | undefined): MutableTurn | undefined {
    const last = this.#turns.at(-1)
    if (role === 'assistant' && last?.role === 'assistant') return last
    if (this.#turns.length >= LIMITS.turns) return undefined
    return { role, ...(atMs !== undefined && { atMs }), parts: [] }
  }

  #result({ callId, output, ok }: Extract<Step, { type: 'result' }>): void {
    const at = this.#open.get(callId)
    const call = at?.turn.parts[at.part]
    if (at === undefined || call?.type !== 'tool') return
    this.#open.delete(callId)
    const stored = truncateText(output, LIMITS.toolOutputChars, this.#options.redact)
    if (this.#chars + stored.length > LIMITS.conversationChars) {
      this.#damage.cut = true
      return
    }
    this.#chars += stored.length
    at.turn.parts[at.part] = { ...call, output: stored, ...(ok !== undefined && { ok }) }
  }

  #undo(count: number): void {
    for (let left = count; left > 0; left--) {
      const at = this.#turns.findLastIndex(({ role }) => role === 'user')
      if (at === -1) break
      for (const { parts } of this.#turns.splice(at)) for (const part of parts) this.#chars -= charsOf(part)
    }
    this.#open = new Map()
  }

  #fits(part: Part): boolean {
    const chars = charsOf(part)
    if (this.#chars + chars > LIMITS.conversationChars) return false
    this.#chars += chars
    return true
  }

  #learn({ startedAtMs, cwd, model, title, usage, updatedAtMs }: Facts): void {
    if (updatedAtMs !== undefined) this.#updatedAtMs = Math.max(this.#updatedAtMs, updatedAtMs)
    this.#facts.startedAtMs ??= startedAtMs
    this.#facts.cwd ??= cwd
    if (model !== undefined) this.#facts.model = model
    if (title !== undefined) this.#facts.title = title
    if (usage !== undefined) this.#facts.usage = usage
  }

  #note({ damaged = 0, oversized = 0, unfinished = false, cut = false }: Partial<Damage>): void {
    this.#damage.damaged += damaged
    this.#damage.oversized += oversized
    this.#damage.unfinished ||= unfinished
    this.#damage.cut ||= cut
  }

  #name(value: string | undefined): string | undefined {
    const name = nameIn(value)
    return name === undefined ? undefined : nameIn(truncateText(name, LIMITS.nameChars, this.#options.redact))
  }
}

function charsOf(part: Part): number {
  return part.type === 'tool'
    ? part.name.length + part.input.length + (part.output?.length ?? 0)
    : part.text.length
}
