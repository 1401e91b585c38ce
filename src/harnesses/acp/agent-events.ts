/**
 * Converts the updates of every agent to one form. They come from the sandbox, so Craik limits their size and never
 * trusts them.
 */
import type { SessionUpdate, ToolCallContent, ToolCallUpdate } from '@agentclientprotocol/sdk'
import { commandIn, describeToolCall, mergeToolCallText, type ToolCallText } from './tool-call-text.ts'

export const TOOL_KINDS = [
  'read',
  'edit',
  'delete',
  'move',
  'search',
  'execute',
  'think',
  'fetch',
  'other',
] as const
export type ToolKind = (typeof TOOL_KINDS)[number]

interface DiffStat {
  readonly path: string
  readonly added: number
  readonly removed: number
}

export interface ToolState {
  readonly id: string
  readonly kind: ToolKind
  /** One line: the command, or the agent's title for the call. */
  readonly title: string
  readonly status: 'pending' | 'running' | 'completed' | 'failed'
  readonly paths: readonly string[]
  readonly diffs: readonly DiffStat[]
  /** The end of its output, if the agent reports it. */
  readonly output: string
  readonly exitCode: number | null
}

/** A tool call that needs permission. */
export interface PendingTool extends ToolState {
  /** Every line of the request. The decision is about this text, and the user sees it. */
  readonly requestText: string
}

export type AgentEvent =
  | { readonly type: 'text' | 'thinking'; readonly text: string }
  | { readonly type: 'tool'; readonly tool: ToolState }
  | { readonly type: 'plan'; readonly entries: readonly { readonly text: string; readonly status: string }[] }
  | { readonly type: 'notice'; readonly text: string }

const MAX_TEXT = 256 * 1024
const MAX_LINE = 1000
const MAX_OUTPUT = 8 * 1024
/** Craik keeps this many of the latest tool calls. An update of an older call starts with an empty state. */
const MAX_TOOLS = 500
const MAX_PARTS = 64

/** Combines the partial updates of an agent. */
export class UpdateTracker {
  readonly #tools = new Map<string, ToolState>()
  readonly #reported = new Map<string, ToolCallText>()

  /** Returns undefined when the update contains nothing for the user. */
  take(update: SessionUpdate): AgentEvent | undefined {
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
      case 'agent_thought_chunk': {
        const { content } = update
        if (content.type !== 'text' || content.text === '') return undefined
        const type = update.sessionUpdate === 'agent_message_chunk' ? 'text' : 'thinking'
        return { type, text: content.text.slice(0, MAX_TEXT) }
      }
      case 'tool_call':
      case 'tool_call_update':
        return { type: 'tool', tool: this.#tool(update) }
      case 'plan':
        return {
          type: 'plan',
          entries: update.entries
            .slice(0, MAX_PARTS)
            .map(({ content, status }) => ({ text: line(content), status })),
        }
      case 'notice':
        return { type: 'notice', text: line(update.title) }
      default:
        return undefined
    }
  }

  /** Returns the state of a tool call when the agent requests permission for it. */
  describeRequest(update: ToolCallUpdate): PendingTool {
    const before = this.#reported.get(idOf(update))
    const tool = this.#tool(update)
    return { ...tool, requestText: describeToolCall(update, tool.kind, before) }
  }

  /** Returns the state of a tool call after an update. */
  #tool(update: ToolCallUpdate): ToolState {
    const id = idOf(update)
    const before = this.#tools.get(id)
    const [oldest] = this.#tools.keys()
    if (before === undefined && this.#tools.size >= MAX_TOOLS) {
      this.#tools.delete(oldest!)
      this.#reported.delete(oldest!)
    }
    const reported = mergeToolCallText(this.#reported.get(id), update)
    this.#reported.set(id, reported)
    const content = (update.content ?? []).slice(0, MAX_PARTS)
    const diffs = content.flatMap((part) => (part.type === 'diff' ? [statOf(part)] : []))
    const output = content.map(textOf).join('\n')
    const paths = (update.locations ?? []).slice(0, MAX_PARTS).map(({ path }) => line(path))
    const after: ToolState = {
      id,
      kind: kindOf(update.kind) ?? before?.kind ?? 'other',
      title: line(commandIn(update.rawInput) ?? commandIn(reported.rawInput) ?? reported.title ?? ''),
      status: statusOf(update.status) ?? before?.status ?? 'pending',
      paths: paths.length > 0 ? paths : (before?.paths ?? []),
      diffs: diffs.length > 0 ? diffs : (before?.diffs ?? []),
      output: (output === '' ? (before?.output ?? '') : output).slice(-MAX_OUTPUT),
      exitCode: exitCodeIn(update) ?? before?.exitCode ?? null,
    }
    this.#tools.set(id, after)
    return after
  }
}

function idOf({ toolCallId }: ToolCallUpdate): string {
  return toolCallId.slice(0, MAX_LINE)
}

function kindOf(kind: string | null | undefined): ToolKind | undefined {
  if (kind === null || kind === undefined) return undefined
  return (TOOL_KINDS as readonly string[]).includes(kind) ? (kind as ToolKind) : 'other'
}

function statusOf(status: string | null | undefined): ToolState['status'] | undefined {
  if (status === 'in_progress') return 'running'
  return status === 'pending' || status === 'completed' || status === 'failed' ? status : undefined
}

function textOf(part: ToolCallContent): string {
  return part.type === 'content' && part.content.type === 'text' ? part.content.text : ''
}

/** Agents report the exit code in the raw output or next to it. */
function exitCodeIn({ rawOutput, _meta }: ToolCallUpdate): number | undefined {
  const places = [rawOutput, (rawOutput as { metadata?: unknown } | null)?.metadata, _meta?.terminal_exit]
  for (const place of places) {
    if (typeof place !== 'object' || place === null) continue
    const { exit_code, exitCode, exit } = place as Record<string, unknown>
    const code = [exit_code, exitCode, exit].find((each) => Number.isInteger(each))
    if (code !== undefined) return code as number
  }
  return undefined
}

/** Counts the lines that only one of the two texts has. This is enough to show the user how much changed. */
function statOf({
  path,
  oldText,
  newText,
}: {
  path: string
  oldText?: string | null
  newText: string
}): DiffStat {
  const lines = (text: string) => (text === '' ? [] : text.slice(0, MAX_TEXT).split('\n'))
  const before = lines(oldText ?? '')
  const after = lines(newText)
  const left = new Map<string, number>()
  for (const each of before) left.set(each, (left.get(each) ?? 0) + 1)
  let added = 0
  for (const each of after) {
    const count = left.get(each) ?? 0
    if (count === 0) added++
    else left.set(each, count - 1)
  }
  return { path: line(path), added, removed: before.length - (after.length - added) }
}

function line(text: string): string {
  const first = text.split('\n', 1)[0] ?? ''
  return first.length > MAX_LINE ? `${first.slice(0, MAX_LINE)}…` : first
}
