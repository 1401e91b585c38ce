/**
 * Reads Codex's transcripts: one file of lines for each session. The `response_item` lines contain the model's input
 * and answers.
 */
import { z } from 'zod'
import type { TranscriptEntry } from '../transcript-entries.ts'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import { anything, parseWith } from '../transcript-lines.ts'
import { nameIn, parseTokens, timeOf } from '../transcript-values.ts'
import { damageOf, stemOf, type TranscriptReader, transcriptLines } from './reader.ts'

const text = z.string()
const line = z.object({ timestamp: anything, type: text, payload: z.looseObject({ type: anything }) })

const meta = z.object({ id: anything, timestamp: anything, cwd: anything, source: anything })

const piece = z.looseObject({ type: text, text: text.optional() })
const pieces = z.array(piece.or(z.unknown())).max(TRANSCRIPT_LIMITS.partsOfTurn)
const kinds = z
  .object({ content_item_kinds: z.array(text).optional() })
  .optional()
  .catch(undefined)

const callOutput = z.union([text, pieces, z.looseObject({ content: text })])

/** One schema for each kind of item in a conversation. */
const item = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('message'),
    role: text,
    content: pieces,
    internal_chat_message_metadata_passthrough: kinds,
  }),
  z.object({
    type: z.literal('reasoning'),
    summary: pieces.nullish().transform((value) => value ?? []),
    content: pieces.nullish().transform((value) => value ?? []),
  }),
  z.object({ type: z.literal('function_call'), call_id: text, name: text, arguments: text }),
  z.object({ type: z.literal('custom_tool_call'), call_id: text, name: text, input: text }),
  z.object({ type: z.literal('local_shell_call'), call_id: text.nullish(), action: anything }),
  z.object({ type: z.literal('web_search_call'), action: anything }),
  z.object({ type: z.literal('function_call_output'), call_id: text, output: callOutput }),
  z.object({ type: z.literal('custom_tool_call_output'), call_id: text, output: callOutput }),
])
type Item = z.infer<typeof item>
const KNOWN: ReadonlySet<unknown> = new Set(item.options.flatMap(({ shape }) => [...shape.type.values]))

/** Text that the program sends to the model in the user's name. */
const NOT_TYPED =
  /^\s*(?:<(?:environment_context|user_instructions|turn_aborted|subagent_notification|skill|permissions instructions)>|# AGENTS\.md instructions for )/

export const codexReader: TranscriptReader = {
  harness: 'codex',
  folder: '.codex/sessions',
  depth: 3,
  matches: (path) => /(?:^|\/)rollout-[^/]+\.jsonl$/.test(path),
  async *read(source, file) {
    const lines = transcriptLines(source, file)
    let begun = false
    const begin = function* (id: unknown): Generator<TranscriptEntry> {
      if (!begun) yield { type: 'begin', id: typeof id === 'string' ? id : stemOf(file.path, '.jsonl') }
      begun = true
    }
    for await (const { value } of lines) {
      const found = parseWith(line, value)
      if (found === undefined) lines.countDamaged()
      else if (found.type === 'session_meta') {
        // A forked session also contains the beginning of the other session.
        if (!begun) {
          const facts = parseWith(meta, found.payload)
          yield* begin(facts?.id)
          if (facts !== undefined) yield* metaEntries(facts)
        }
      } else {
        yield* begin(undefined)
        if (found.type === 'turn_context')
          yield { type: 'facts', model: nameIn(found.payload.model), cwd: nameIn(found.payload.cwd) }
        else if (found.type === 'event_msg') yield* eventEntries(found.payload)
        else if (found.type === 'response_item' && KNOWN.has(found.payload.type)) {
          const known = parseWith(item, found.payload)
          if (known === undefined) lines.countDamaged()
          else yield* itemEntries(known, timeOf(found.timestamp))
        }
      }
    }
    yield damageOf(lines, file)
  },
}

function* metaEntries(facts: z.infer<typeof meta>): Generator<TranscriptEntry> {
  yield { type: 'facts', startedAtMs: timeOf(facts.timestamp), cwd: nameIn(facts.cwd) }
  // Ordinary sources, such as `cli` or `exec`, are strings. The source of a subagent is an object.
  const { source } = facts
  if (typeof source === 'object' && source !== null && 'subagent' in source) yield { type: 'discard' }
}

const rolledBack = z.object({
  type: z.literal('thread_rolled_back'),
  num_turns: z.number().int().positive().max(TRANSCRIPT_LIMITS.turns),
})
const counted = z.object({
  type: z.literal('token_count'),
  info: z.object({
    total_token_usage: z.object({ input_tokens: anything, output_tokens: anything }),
  }),
})

function* eventEntries(payload: unknown): Generator<TranscriptEntry> {
  const back = parseWith(rolledBack, payload)
  if (back !== undefined) yield { type: 'undo', count: back.num_turns }
  const total = parseWith(counted, payload)?.info.total_token_usage
  if (total !== undefined)
    yield {
      type: 'facts',
      usage: {
        inputTokens: parseTokens(total.input_tokens),
        outputTokens: parseTokens(total.output_tokens),
      },
    }
}

function* itemEntries(known: Item, atMs: number | undefined): Generator<TranscriptEntry> {
  switch (known.type) {
    case 'message':
      return yield* messageEntries(known, atMs)
    case 'reasoning': {
      const thought = [...known.summary, ...known.content].map(textIn).join('\n\n')
      return yield { type: 'thinking', atMs, text: thought }
    }
    case 'function_call':
      return yield call(known.call_id, known.name, argumentsOf(known.arguments), atMs)
    case 'custom_tool_call':
      return yield call(known.call_id, known.name, known.input, atMs)
    case 'local_shell_call':
      return yield call(known.call_id ?? '', 'local_shell', known.action, atMs)
    case 'web_search_call':
      return yield call('', 'web_search', known.action, atMs)
    default: {
      const output = outputOf(known.output)
      const exit = /^(?:Process exited with code|Exit code:) (-?\d{1,10})$/m.exec(output.slice(0, 1000))
      const message = output.replace(/^Chunk ID: [\s\S]{0,400}?^Output:\n/m, '')
      yield { type: 'result', callId: known.call_id, output: message, ok: exit === null || exit[1] === '0' }
    }
  }
}

function* messageEntries(
  known: Extract<Item, { type: 'message' }>,
  atMs: number | undefined,
): Generator<TranscriptEntry> {
  const { role, content, internal_chat_message_metadata_passthrough: passed } = known
  if (role === 'assistant') yield { type: 'text', atMs, text: content.map(textIn).join('\n\n') }
  if (role !== 'user') return
  const kindsOf = passed?.content_item_kinds
  const isTyped = (output: string, i: number) =>
    kindsOf === undefined ? !NOT_TYPED.test(output) : (kindsOf[i]?.startsWith('user.') ?? false)
  const prompt = content.map(textIn).filter(isTyped).join('\n\n')
  if (prompt.trim() !== '') yield { type: 'user', atMs, text: prompt }
}

function call(callId: string, name: string, input: unknown, atMs: number | undefined): TranscriptEntry {
  return { type: 'call', atMs, callId, name, input }
}

/** The arguments are JSON in a string, unless the model wrote invalid JSON. */
function argumentsOf(output: string): unknown {
  try {
    return JSON.parse(output)
  } catch {
    return output
  }
}

function textIn(one: unknown): string {
  return parseWith(piece, one)?.text ?? ''
}

function outputOf(output: z.infer<typeof callOutput>): string {
  if (typeof output === 'string') return output
  return Array.isArray(output) ? output.map(textIn).join('\n') : output.content
}
