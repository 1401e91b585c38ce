/**
 * What an agent asks leave for, all of it: whoever says yes has to see every line of the command, and not what the agent calls it.
 */
import type { ToolCallUpdate } from '@agentclientprotocol/sdk'
import type { ToolKind } from './agent-events.ts'

/** More cannot be read before it is answered, and what is not read is not allowed. */
const MAX_CHARACTERS = 16 * 1024
const MAX_LINES = 200
/** Of what goes into a file: it is looked at afterwards, in what was changed. */
const FILE_LINES = 8
const FILE_CHARACTERS = 400

/** Whether a person can be shown it whole. */
export function isDisplayable(asks: string): boolean {
  return asks.length <= MAX_CHARACTERS && asks.split('\n').length <= MAX_LINES
}

/** What was told of a call before leave is asked for it. */
export interface ToolCallText {
  readonly title: string | null | undefined
  readonly rawInput: unknown
}

/** What is too long stays too long. */
export function mergeToolCallText(
  before: ToolCallText | undefined,
  { title, rawInput }: ToolCallUpdate,
): ToolCallText {
  return {
    title: title ? title.slice(0, MAX_CHARACTERS + 1) : before?.title,
    rawInput: isEmpty(rawInput) ? before?.rawInput : truncateInput(rawInput),
  }
}

function truncateInput(input: unknown): unknown {
  const json = JSON.stringify(input)
  return json.length <= MAX_CHARACTERS ? input : { input: json.slice(0, MAX_CHARACTERS + 1) }
}

/** What the request leaves out is as it was told before. */
export function describeToolCall(
  update: ToolCallUpdate,
  kind: ToolKind,
  before: ToolCallText | undefined,
): string {
  const isOwn = !isEmpty(update.rawInput)
  const input = isOwn ? update.rawInput : before?.rawInput
  const title = update.title || before?.title
  const command = commandIn(input)
  // What it is named by the same request is another word for it.
  if (command !== undefined && kind === 'execute')
    return isOwn || !update.title ? command : textOf([command, update.title])
  const output = (update.content ?? []).flatMap((part) => {
    if (part.type === 'diff') return [`file: ${part.path}`]
    return part.type === 'content' && part.content.type === 'text' ? [part.content.text] : []
  })
  const fields = Object.entries(objectOf(input)).map(([name, value]) => {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
    return `${name}: ${kind === 'edit' ? beginningOf(text) : text}`
  })
  const searchedLocations = (update.locations ?? []).map(({ path }) => `file: ${path}`)
  return textOf([title, ...output, ...fields, ...searchedLocations])
}

function textOf(parts: readonly (string | null | undefined)[]): string {
  return [...new Set(parts.filter((part) => part))].join('\n')
}

/** Agents title their shell calls each in their own way; the command itself says it best. */
export function commandIn(input: unknown): string | undefined {
  const { command, cmd, args } = objectOf(input)
  const words = [command ?? cmd].flat()
  if (typeof words[0] !== 'string' || words[0] === '') return undefined
  return [...words, ...(Array.isArray(args) ? args : [])].map(String).join(' ')
}

function objectOf(input: unknown): Record<string, unknown> {
  if (typeof input === 'string' && input !== '') return { input }
  return typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : {}
}

function isEmpty(input: unknown): boolean {
  return Object.keys(objectOf(input)).length === 0
}

function beginningOf(text: string): string {
  const begin = text.slice(0, FILE_CHARACTERS).split('\n').slice(0, FILE_LINES).join('\n')
  const left = text.length - begin.length
  return left === 0 ? text : `${begin}… and ${left.toLocaleString('en')} more characters`
}
