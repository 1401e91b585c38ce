/**
 * Reads Gemini's transcripts: one file of lines for each session. The program writes a message again, under its id,
 * when a tool has answered, and the last version counts. `$set` replaces facts, or all messages at once with copies
 * that contain less than the originals. `$rewindTo` removes a message and all after it.
 */
import { z } from 'zod'
import type { TranscriptSource } from '../source.ts'
import type { TranscriptEntry } from '../transcript-entries.ts'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import { anything, parseWith } from '../transcript-lines.ts'
import { nameIn, parseTokens, timeOf } from '../transcript-values.ts'
import { damageOf, stemOf, type TranscriptReader, transcriptLines } from './reader.ts'

const text = z.string()
const list = <T extends z.ZodType>(of: T) => z.array(of).max(TRANSCRIPT_LIMITS.partsOfTurn)

const part = z.looseObject({
  text: text.optional(),
  thought: z.boolean().optional(),
  functionCall: z.object({ id: text.optional(), name: text, args: anything }).optional(),
})
const parts = z.union([text, list(z.union([part, text.transform((output) => ({ text: output }))]))])

const toolCall = z.object({
  id: text.optional(),
  name: text,
  args: anything,
  status: anything,
  result: anything,
  resultDisplay: anything,
})

const message = z.object({
  id: text.max(200),
  timestamp: anything,
  type: text,
  content: parts.optional(),
  thoughts: list(z.looseObject({ subject: text.optional(), description: text.optional() })).optional(),
  toolCalls: list(toolCall).optional(),
  tokens: z.looseObject({}).nullish(),
  model: anything,
})
type Message = z.infer<typeof message>

const header = z.object({ sessionId: text, startTime: anything, kind: anything })
const update = z.object({
  $set: z.looseObject({
    messages: z.array(z.unknown()).optional(),
    sessionId: anything,
    summary: anything,
  }),
})
const rewind = z.object({ $rewindTo: text })

/** Text that the program sends to the model in the user's name. */
const NOT_TYPED = /^\s*<(?:session_context|state_snapshot|system-reminder)>/

export const geminiReader: TranscriptReader = {
  harness: 'gemini',
  folder: '.gemini/tmp',
  depth: 2,
  matches: (path) => /^[^/]+\/chats\/session-[^/]+\.jsonl$/.test(path),
  async *read(source, file) {
    const lines = transcriptLines(source, file)
    const messages = new Messages()
    const facts: TranscriptEntry[] = []
    let id = stemOf(file.path, '.jsonl')
    for await (const { value, bytes } of lines) {
      const taken = messages.take(value, bytes)
      if (taken === 'damaged') lines.countDamaged()
      if (taken !== 'none') continue
      const head = parseWith(header, value)
      const title = nameIn(parseWith(update, value)?.$set.summary)
      if (head !== undefined) {
        id = head.sessionId
        facts.push({ type: 'facts', startedAtMs: timeOf(head.startTime) })
        if (head.kind === 'subagent') facts.push({ type: 'discard' })
      } else if (title !== undefined) facts.push({ type: 'facts', title })
    }
    yield { type: 'begin', id }
    yield { type: 'facts', cwd: await projectRoot(source, file.path) }
    yield* facts
    for (const reply of messages.all()) yield* entriesOf(reply)
    yield { type: 'facts', usage: messages.usage() }
    yield damageOf(lines, file, messages.isCut)
  },
}

/** Returns the name of the project folder, which the program stores next to its chats. */
async function projectRoot(source: TranscriptSource, path: string): Promise<string | undefined> {
  const pieces: Uint8Array[] = []
  const name = `${path.split('/').slice(0, -2).join('/')}/.project_root`
  for await (const piece of source.read(name, TRANSCRIPT_LIMITS.nameChars)) pieces.push(piece)
  return nameIn(Buffer.concat(pieces).toString('utf8'))
}

class Messages {
  /** The current messages in their order. */
  #current = new Map<string, Message>()
  /** The last version of each message that was written on a line of its own. */
  readonly #known = new Map<string, Message>()
  #bytes = 0
  isCut = false

  take(value: unknown, bytes: number): 'taken' | 'damaged' | 'none' {
    if (typeof value !== 'object' || value === null) return 'damaged'
    if ('$rewindTo' in value) return this.#rewind(value)
    if ('$set' in value) return this.#set(value)
    if (!('id' in value) || !('type' in value)) return 'none'
    const reply = parseWith(message, value)
    if (reply === undefined) return 'damaged'
    this.#bytes += bytes
    // Far above the limit for a conversation, because every version of a message counts.
    if (this.#bytes > 4 * TRANSCRIPT_LIMITS.conversationChars || this.#known.size >= TRANSCRIPT_LIMITS.lines)
      this.isCut = true
    else {
      this.#known.set(reply.id, reply)
      this.#current.set(reply.id, reply)
    }
    return 'taken'
  }

  all(): Iterable<Message> {
    return this.#current.values()
  }

  usage(): { readonly inputTokens: number; readonly outputTokens: number } | undefined {
    let [inputTokens, outputTokens, any] = [0, 0, false]
    for (const { tokens } of this.#current.values()) {
      if (tokens === undefined || tokens === null) continue
      any = true
      inputTokens += parseTokens(tokens.input)
      outputTokens += parseTokens(tokens.output) + parseTokens(tokens.thoughts)
    }
    return any ? { inputTokens, outputTokens } : undefined
  }

  #set(value: object): 'taken' | 'damaged' | 'none' {
    const found = parseWith(update, value)
    if (found === undefined) return 'damaged'
    const { messages } = found.$set
    if (messages === undefined) return 'none'
    const copies = messages.flatMap((one) => parseWith(message, one) ?? [])
    this.#current = new Map(copies.map((copy) => [copy.id, this.#known.get(copy.id) ?? copy]))
    return copies.length < messages.length ? 'damaged' : 'taken'
  }

  #rewind(value: object): 'taken' | 'damaged' {
    const found = parseWith(rewind, value)
    if (found === undefined) return 'damaged'
    const ids = [...this.#current.keys()]
    // Does the same as the program: keeps the messages before this one, and none when the id is unknown.
    const stored = ids.slice(0, Math.max(0, ids.indexOf(found.$rewindTo)))
    this.#current = new Map(stored.map((id) => [id, this.#current.get(id)!]))
    return 'taken'
  }
}

function* entriesOf(reply: Message): Generator<TranscriptEntry> {
  const atMs = timeOf(reply.timestamp)
  const content = typeof reply.content === 'string' ? [{ text: reply.content }] : (reply.content ?? [])
  if (reply.type === 'user') {
    const typed = content.flatMap(({ text: one }) => (one === undefined || NOT_TYPED.test(one) ? [] : [one]))
    if (typed.length > 0) yield { type: 'user', atMs, text: typed.join('\n\n') }
    return
  }
  if (reply.type !== 'gemini') return
  const model = nameIn(reply.model)
  if (model !== undefined) yield { type: 'facts', model }
  for (const { subject = '', description = '' } of reply.thoughts ?? [])
    yield { type: 'thinking', atMs, text: `${subject}\n${description}` }
  for (const one of content) {
    const { text: words, thought, functionCall } = one as z.infer<typeof part>
    if (words !== undefined) yield { type: thought ? 'thinking' : 'text', atMs, text: words }
    if (functionCall !== undefined && reply.toolCalls === undefined)
      yield {
        type: 'call',
        atMs,
        callId: functionCall.id ?? '',
        name: functionCall.name,
        input: functionCall.args,
      }
  }
  for (const [i, tool] of (reply.toolCalls ?? []).entries()) {
    const callId = tool.id ?? `${reply.id}-${i}`
    yield { type: 'call', atMs, callId, name: tool.name, input: tool.args }
    const output = outputOf(tool)
    if (output !== undefined) yield { type: 'result', callId, output, ok: tool.status === 'success' }
  }
}

const responses = list(
  z.object({ functionResponse: z.object({ response: z.looseObject({ output: text.optional() }) }) }),
)

/** Returns the text that the program showed the user, or else the text that it sent to the model. */
function outputOf({ resultDisplay, result }: z.infer<typeof toolCall>): string | undefined {
  if (typeof resultDisplay === 'string') return resultDisplay
  const reported = parseWith(responses, result)
  if (reported === undefined) return undefined
  return reported.map(({ functionResponse }) => functionResponse.response.output ?? '').join('\n')
}
