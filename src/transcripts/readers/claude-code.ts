/**
 * Reads Claude Code's transcripts: one file of lines for each session, in which messages name their parents. When the
 * user rewinds and types a prompt again, the old branch stays in the file. The branch with the last message counts. So
 * the file is read twice: first for the order of the messages, then for their content.
 */
import { z } from 'zod'
import type { TranscriptEntry } from '../transcript-entries.ts'
import { TRANSCRIPT_LIMITS } from '../transcript-limits.ts'
import { anything, type JsonLines, parseWith } from '../transcript-lines.ts'
import { nameIn, parseTokens, timeOf } from '../transcript-values.ts'
import { ActiveBranch } from './active-branch.ts'
import { damageOf, stemOf, type TranscriptReader, transcriptLines } from './reader.ts'

const text = z.string()
const block = z.looseObject({
  type: text,
  text: text.optional(),
  thinking: text.optional(),
  id: text.optional(),
  name: text.optional(),
  input: anything,
  tool_use_id: text.optional(),
  content: anything,
  is_error: z.boolean().nullish(),
})
type Block = z.infer<typeof block>

const message = z.object({
  type: z.enum(['user', 'assistant']),
  uuid: text.max(200),
  parentUuid: text.max(200).nullish(),
  timestamp: anything,
  isSidechain: z.boolean().nullish(),
  isMeta: z.boolean().nullish(),
  isCompactSummary: z.boolean().nullish(),
  isVisibleInTranscriptOnly: z.boolean().nullish(),
  cwd: anything,
  message: z.object({
    id: text.max(200).optional(),
    model: anything,
    content: z.union([text, z.array(z.unknown()).max(TRANSCRIPT_LIMITS.partsOfTurn)]),
    usage: z.looseObject({}).nullish().catch(undefined),
  }),
})
type Message = z.infer<typeof message>

/** Any line in the tree. Attachments and compaction boundaries also link messages. */
const node = z.object({
  type: text,
  uuid: text.max(200),
  parentUuid: text.max(200).nullish(),
  logicalParentUuid: text.max(200).nullish(),
  isSidechain: z.boolean().nullish(),
  message: z
    .object({ id: text.max(200).optional() })
    .optional()
    .catch(undefined),
})

const title = z.object({
  type: z.enum(['custom-title', 'ai-title', 'summary']),
  customTitle: text.optional(),
  aiTitle: text.optional(),
  summary: text.optional(),
})
const TITLES: ReadonlySet<unknown> = new Set(title.shape.type.options)

/** The model name of messages that the program writes itself, for example after a cancelled prompt. */
const SYNTHETIC = '<synthetic>'
const NOTHING_TO_SAY = 'No response requested.'
const INTERRUPTED = /^\[Request interrupted by user(?: for tool use)?\]$/

export const claudeCodeReader: TranscriptReader = {
  harness: 'claude-code',
  folder: '.claude/projects',
  depth: 1,
  // Subagents have their own files.
  matches: (path) => /^[^/]+\/(?!agent-)[^/]+\.jsonl$/.test(path),
  async *read(source, file) {
    yield { type: 'begin', id: stemOf(file.path, '.jsonl') }
    const first = transcriptLines(source, file)
    const branch = await activeBranch(first)
    // Lines that were added since the first read are left for the next time.
    const lines = transcriptLines(source, file, first.bytes)
    const usage = new Usage()
    for await (const { value } of lines) {
      const type = (value as { type?: unknown } | null)?.type
      if (TITLES.has(type)) yield* titleOf(value)
      if (type !== 'user' && type !== 'assistant') continue
      const reply = parseWith(message, value)
      if (reply === undefined) lines.countDamaged()
      else yield* entriesOf(reply, branch, usage)
    }
    yield { type: 'facts', usage: usage.total() }
    yield damageOf(lines, file, branch.isCut)
  },
}

async function activeBranch(lines: JsonLines): Promise<ActiveBranch> {
  const branch = new ActiveBranch()
  for await (const { value } of lines) {
    const found = parseWith(node, value)
    if (found === undefined || found.isSidechain) continue
    const isMessage = found.type === 'user' || found.type === 'assistant'
    // A compaction starts a new tree, and names the message before it.
    const parent = found.parentUuid ?? found.logicalParentUuid ?? undefined
    branch.add(found.uuid, parent, { isMessage, group: found.message?.id })
  }
  branch.close()
  return branch
}

function* titleOf(value: unknown): Generator<TranscriptEntry> {
  const found = parseWith(title, value)
  const name = nameIn(found?.customTitle ?? found?.aiTitle ?? found?.summary)
  if (name !== undefined) yield { type: 'facts', title: name }
}

function* entriesOf(reply: Message, branch: ActiveBranch, usage: Usage): Generator<TranscriptEntry> {
  if (reply.isSidechain) return
  const atMs = timeOf(reply.timestamp)
  const { content, id, model } = reply.message
  const blocks =
    typeof content === 'string' ? [{ type: 'text', text: content } as Block] : parseBlocks(content)
  // The results of parallel tool calls are on their own branches.
  for (const { type, tool_use_id: callId, content: output, is_error: failed } of blocks)
    if (type === 'tool_result' && callId !== undefined)
      yield { type: 'result', callId, output: plainText(output), ok: failed !== true }
  if (!branch.includesOnce(reply.uuid, id)) return
  yield { type: 'facts', cwd: nameIn(reply.cwd), startedAtMs: atMs }
  if (reply.type === 'user') {
    if (reply.isMeta || reply.isCompactSummary || reply.isVisibleInTranscriptOnly) return
    const prompt = blocks.flatMap((one) => (one.type === 'text' ? [extractPrompt(one.text ?? '')] : []))
    const whole = prompt.filter((one) => one !== '').join('\n\n')
    if (whole !== '') yield { type: 'user', atMs, text: whole }
    return
  }
  usage.add(id ?? reply.uuid, reply.message.usage)
  const name = nameIn(model)
  const isSynthetic = name === SYNTHETIC
  if (name !== undefined && !isSynthetic) yield { type: 'facts', model: name }
  for (const one of blocks) {
    if (isSynthetic && one.text === NOTHING_TO_SAY) continue
    if (one.type === 'text') yield { type: 'text', atMs, text: one.text ?? '' }
    else if (one.type === 'thinking') yield { type: 'thinking', atMs, text: one.thinking ?? '' }
    else if (one.type === 'tool_use' && one.id !== undefined)
      yield { type: 'call', atMs, callId: one.id, name: one.name ?? 'tool', input: one.input }
  }
}

function parseBlocks(content: readonly unknown[]): Block[] {
  return content.flatMap((one) => {
    const found = parseWith(block, one)
    return found === undefined ? [] : [found]
  })
}

/** Returns the text that the user typed, without the program's additions. */
function extractPrompt(prompt: string): string {
  if (/^\s*<(?:system-reminder|local-command-(?:stdout|stderr|caveat))>/.test(prompt)) return ''
  if (INTERRUPTED.test(prompt)) return ''
  const command = /<command-name>([^<]{1,200})<\/command-name>/.exec(prompt.slice(0, 2000))
  if (command === null) return prompt
  const words = /<command-args>([\s\S]*?)<\/command-args>/.exec(prompt)?.[1] ?? ''
  return `${command[1]} ${words}`.trim()
}

/** Returns the text of a result, which is a text or a list of blocks of which some are text. */
function plainText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return parseBlocks(content)
    .map((one) => (one.type === 'text' ? (one.text ?? '') : `(${one.type})`))
    .join('\n')
}

/** Sums up the token usage. One answer of the model has several lines, each with the usage of the whole answer. */
class Usage {
  #last: { id: string; input: number; output: number } | undefined
  #input = 0
  #output = 0

  add(id: string, usage: Readonly<Record<string, unknown>> | null | undefined): void {
    if (usage === null || usage === undefined) return
    if (this.#last?.id === id) {
      this.#input -= this.#last.input
      this.#output -= this.#last.output
    }
    const input =
      parseTokens(usage.input_tokens) +
      parseTokens(usage.cache_creation_input_tokens) +
      parseTokens(usage.cache_read_input_tokens)
    this.#last = { id, input, output: parseTokens(usage.output_tokens) }
    this.#input += this.#last.input
    this.#output += this.#last.output
  }

  total(): { readonly inputTokens: number; readonly outputTokens: number } | undefined {
    return this.#last && { inputTokens: this.#input, outputTokens: this.#output }
  }
}
