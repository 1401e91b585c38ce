/**
 * Renders a conversation as Markdown: front matter, then one section for each turn, with thoughts and tools in
 * collapsed blocks.
 */
import type { Conversation, Part, RecordedToolCall, TranscriptTurn } from '../conversation.ts'
import { nameOf } from '../conversation.ts'
import { defuse, fenceCode, htmlText } from './defuse.ts'

export interface RenderOptions {
  /** The sandbox of the conversation, as the host identifies it. */
  readonly sandbox?: string
}

/** The conversation must already be cleaned and redacted. The same conversation always gives the same text. */
export function renderMarkdown(conversation: Conversation, options: RenderOptions = {}): string {
  const sections = conversation.turns.map(sectionOf)
  return [frontMatter(conversation, options), ...sections, ...notes(conversation)].join('\n\n').concat('\n')
}

const SUMMARY_CHARS = 100

function frontMatter(conversation: Conversation, { sandbox }: RenderOptions): string {
  const { harness, id, startedAtMs, model, cwd, turns, usage } = conversation
  const name = nameOf(conversation)
  const facts: readonly (readonly [string, string | number | undefined])[] = [
    ['title', name === '' ? undefined : quote(name)],
    ['harness', harness],
    ['session', quote(id)],
    ['sandbox', sandbox === undefined ? undefined : quote(sandbox)],
    ['started', startedAtMs === undefined ? undefined : new Date(startedAtMs).toISOString()],
    ['model', model === undefined ? undefined : quote(model)],
    ['workspace', cwd === undefined ? undefined : quote(cwd)],
    ['turns', turns.length],
    ['input_tokens', usage?.inputTokens],
    ['output_tokens', usage?.outputTokens],
  ]
  const lines = facts.flatMap(([key, value]) => (value === undefined ? [] : [`${key}: ${value}`]))
  return ['---', ...lines, '---'].join('\n')
}

/** A JSON string in double quotes is also a YAML string. */
function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…`.toWellFormed() : text)
}

function sectionOf({ role, parts }: TranscriptTurn): string {
  return [`## ${role}`, ...parts.map(partOf)].join('\n\n')
}

function partOf(part: Part): string {
  if (part.type === 'text') return defuse(part.text)
  return part.type === 'thinking' ? foldDetails('thinking', defuse(part.text)) : toolOf(part)
}

function toolOf({ name, input, output, ok }: RecordedToolCall): string {
  const outcome = output === undefined ? ' · no answer' : ok === false ? ' · failed' : ''
  const gist = gistOf(input)
  const summary = `${oneLine(name)}${gist === '' ? '' : ` · ${gist}`}${outcome}`
  const content = [
    ...(input === '' ? [] : [fenceCode(input, input.startsWith('{') ? 'json' : '')]),
    ...(output === undefined || output.trim() === '' ? [] : [fenceCode(output, 'text')]),
  ]
  return foldDetails(summary, content.join('\n\n'))
}

/** Returns the part of a tool's input by which the user recognizes the call. */
function gistOf(input: string): string {
  const named =
    /"(?:command|cmd|file_path|path|pattern|query|url|description)": ("(?:[^"\\]|\\.){1,400}")/.exec(
      input.slice(0, 4096),
    )
  const text = (named !== null && tryUnquote(named[1]!)) || input.slice(0, 4096).replace(/[{}"]/g, ' ')
  const line = oneLine(text)
  return line.length > SUMMARY_CHARS ? `${line.slice(0, SUMMARY_CHARS)}…`.toWellFormed() : line
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}

function tryUnquote(text: string): string | undefined {
  try {
    return JSON.parse(text) as string
  } catch {
    return undefined
  }
}

/** Adds blank lines around the content, so that it is parsed as Markdown. */
function foldDetails(summary: string, content: string): string {
  const head = `<details>\n<summary>${htmlText(summary)}</summary>`
  return [head, ...(content === '' ? [] : [content]), '</details>'].join('\n\n')
}

function notes({ damage }: Conversation): string[] {
  const { damaged, oversized, cut } = damage
  const output = [
    ...(damaged === 0 ? [] : [`${damaged.toLocaleString('en')} damaged entries were skipped`]),
    ...(oversized === 0 ? [] : [`${oversized.toLocaleString('en')} entries were too long to read`]),
    ...(cut ? ['the rest was too long to save'] : []),
  ]
  return output.length === 0 ? [] : [`*Incomplete: ${output.join('; ')}.*`]
}
