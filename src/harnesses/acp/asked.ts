/**
 * What an agent asks leave for, all of it: whoever says yes has to see every line of the command, and not what the agent calls it.
 */
import type { ToolCallUpdate } from '@agentclientprotocol/sdk'
import type { ToolKind } from './events.ts'

/** More cannot be read before it is answered, and what is not read is not allowed. */
const MAX_CHARACTERS = 16 * 1024
const MAX_LINES = 200
/** Of what goes into a file: it is looked at afterwards, in what was changed. */
const FILE_LINES = 8
const FILE_CHARACTERS = 400

/** Whether a person can be shown it whole. */
export function canBeShown(asks: string): boolean {
  return asks.length <= MAX_CHARACTERS && asks.split('\n').length <= MAX_LINES
}

/** Kept until leave is asked for; one that is too long stays too long. */
export function keptCommand(command: string): string {
  return command.slice(0, MAX_CHARACTERS + 1)
}

/** `known` is the command that was told of this call before. */
export function askedIn(update: ToolCallUpdate, kind: ToolKind, known: string | undefined): string {
  const command = commandIn(update.rawInput)
  if (command !== undefined && kind === 'execute') return command
  const said = (update.content ?? []).flatMap((part) => {
    if (part.type === 'diff') return [`file: ${part.path}`]
    return part.type === 'content' && part.content.type === 'text' ? [part.content.text] : []
  })
  const fields = Object.entries(objectOf(update.rawInput)).map(([name, value]) => {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
    return `${name}: ${kind === 'edit' ? beginningOf(text) : text}`
  })
  const places = (update.locations ?? []).map(({ path }) => `file: ${path}`)
  const parts = [
    command === undefined ? known : undefined,
    update.title,
    ...said,
    ...fields,
    ...places,
  ].filter((part) => part)
  return [...new Set(parts)].join('\n')
}

/** Agents title their shell calls each in their own way; the command itself says it best. */
export function commandIn(input: unknown): string | undefined {
  const { command, cmd, args } = objectOf(input)
  const words = [command ?? cmd ?? [], Array.isArray(args) ? args : []].flat()
  const first = words[0]
  return typeof first === 'string' && first !== '' ? words.map(String).join(' ') : undefined
}

function objectOf(input: unknown): Record<string, unknown> {
  return typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : {}
}

function beginningOf(text: string): string {
  const begin = text.slice(0, FILE_CHARACTERS).split('\n').slice(0, FILE_LINES).join('\n')
  const left = text.length - begin.length
  return left === 0 ? text : `${begin}… and ${left.toLocaleString('en')} more characters`
}
