/**
 * Reads Kimi's transcripts: one file of lines for each agent of a session. `main` is the agent that the user talks to.
 */
import { z } from 'zod'
import type { TranscriptEntry } from '../transcript-entries.ts'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import { anything, parseWith } from '../transcript-lines.ts'
import { nameIn, parseTokens, timeOf } from '../transcript-values.ts'
import { damageOf, type TranscriptReader, transcriptLines } from './reader.ts'

const text = z.string()
const piece = z.looseObject({ type: text, text: text.optional(), think: text.optional() })
const pieces = z.array(z.unknown()).max(TRANSCRIPT_LIMITS.partsOfTurn)

const prompt = z.object({
  type: z.literal('context.append_message'),
  time: anything,
  message: z.object({
    role: text,
    content: z.union([text, pieces]),
    origin: z.looseObject({ kind: text, trigger: anything }).optional(),
  }),
})

const event = z.discriminatedUnion('type', [
  z.object({ type: z.literal('content.part'), part: piece }),
  z.object({ type: z.literal('tool.call'), toolCallId: text, name: text, args: anything }),
  z.object({
    type: z.literal('tool.result'),
    toolCallId: text,
    result: z.looseObject({ output: z.union([text, pieces]).optional(), isError: anything }),
  }),
])
const KNOWN: ReadonlySet<unknown> = new Set(event.options.flatMap(({ shape }) => [...shape.type.values]))
const step = z.object({
  type: z.literal('context.append_loop_event'),
  time: anything,
  event: z.looseObject({ type: anything }),
})

const undo = z.object({
  type: z.literal('context.undo'),
  count: z.number().int().positive().max(TRANSCRIPT_LIMITS.turns),
})
const used = z.object({
  usage: z.looseObject({}),
})
const disclosed = z.object({ environmentDisclosure: z.object({ cwd: anything }) })

export const kimiReader: TranscriptReader = {
  harness: 'kimi',
  folder: '.kimi-code/sessions',
  depth: 4,
  matches: (path) => /^[^/.][^/]*\/[^/]+\/agents\/main\/wire\.jsonl$/.test(path),
  async *read(source, file) {
    yield { type: 'begin', id: file.path.split('/').at(-4)! }
    const lines = transcriptLines(source, file)
    const usage = { inputTokens: 0, outputTokens: 0 }
    for await (const { value } of lines) {
      const entries = entriesOf(value, usage)
      if (entries === undefined) lines.countDamaged()
      else yield* entries
    }
    if (usage.inputTokens + usage.outputTokens > 0) yield { type: 'facts', usage }
    yield damageOf(lines, file)
  },
}

/** Returns undefined when the line does not match its type. */
function entriesOf(
  value: unknown,
  usage: { inputTokens: number; outputTokens: number },
): TranscriptEntry[] | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const record = value as Readonly<Record<string, unknown>>
  switch (record.type) {
    case 'metadata':
      return [{ type: 'facts', startedAtMs: timeOf(record.created_at) }]
    case 'profile.bind':
      return [{ type: 'facts', cwd: nameIn(parseWith(disclosed, value)?.environmentDisclosure.cwd) }]
    case 'llm.request':
      return [{ type: 'facts', model: nameIn(record.model) }]
    case 'usage.record': {
      const found = parseWith(used, value)?.usage ?? {}
      for (const name of ['inputOther', 'inputCacheRead', 'inputCacheCreation'])
        usage.inputTokens += parseTokens(found[name])
      usage.outputTokens += parseTokens(found.output)
      return []
    }
    case 'context.undo': {
      const found = parseWith(undo, value)
      return found && [{ type: 'undo', count: found.count }]
    }
    case 'context.append_message':
      return promptEntries(value)
    case 'context.append_loop_event':
      return stepEntries(value)
    default:
      return []
  }
}

function promptEntries(value: unknown): TranscriptEntry[] | undefined {
  const found = parseWith(prompt, value)
  if (found === undefined) return undefined
  const { role, content, origin } = found.message
  // Messages that the program adds have another origin.
  const isTyped = origin === undefined || origin.kind === 'user' || origin.trigger === 'user-slash'
  if (role !== 'user' || !isTyped) return []
  return [{ type: 'user', atMs: timeOf(found.time), text: plainText(content) }]
}

function stepEntries(value: unknown): TranscriptEntry[] | undefined {
  const found = parseWith(step, value)
  if (found === undefined) return undefined
  if (!KNOWN.has(found.event.type)) return []
  const known = parseWith(event, found.event)
  if (known === undefined) return undefined
  const atMs = timeOf(found.time)
  if (known.type === 'tool.call')
    return [{ type: 'call', atMs, callId: known.toolCallId, name: known.name, input: known.args }]
  if (known.type === 'tool.result') {
    const { output = '', isError } = known.result
    return [{ type: 'result', callId: known.toolCallId, output: plainText(output), ok: isError !== true }]
  }
  const { type, text: output = '', think = '' } = known.part
  if (type === 'text') return [{ type: 'text', atMs, text: output }]
  return type === 'think' ? [{ type: 'thinking', atMs, text: think }] : []
}

function plainText(content: string | readonly unknown[]): string {
  if (typeof content === 'string') return content
  return content.map((one) => parseWith(piece, one)?.text ?? '').join('\n\n')
}
