/**
 * The full text of an agent's permission request. The user who allows it must see every line of the command, not the
 * agent's title for it.
 */
import type { ToolCallUpdate } from '@agentclientprotocol/sdk'
import type { ToolKind } from './agent-events.ts'

/** The user cannot read more before answering, and Craik does not allow what the user cannot read. */
const MAX_CHARACTERS = 16 * 1024
const MAX_LINES = 200
/** The limits for text that a tool writes to a file. The user can review the file afterwards, among the changes. */
const FILE_LINES = 8
const FILE_CHARACTERS = 400

/** Returns whether Craik can show the user the whole text. */
export function isDisplayable(asks: string): boolean {
  return asks.length <= MAX_CHARACTERS && asks.split('\n').length <= MAX_LINES
}

/** The text of a tool call that the agent reported before its permission request. */
export interface ToolCallText {
  readonly title: string | null | undefined
  readonly rawInput: unknown
}

/** Truncates long text to one character more than the limit, so that it still counts as too long. */
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

/** Returns the full text of a permission request. Missing fields come from earlier updates of the call. */
export function describeToolCall(
  update: ToolCallUpdate,
  kind: ToolKind,
  before: ToolCallText | undefined,
): string {
  const isOwn = !isEmpty(update.rawInput)
  const input = isOwn ? update.rawInput : before?.rawInput
  const title = update.title || before?.title
  const command = commandIn(input)
  // A title in the same request is only another name for the command.
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

/**
 * Returns the command of a tool call. Agents title their shell calls differently, so the command describes them best.
 */
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
