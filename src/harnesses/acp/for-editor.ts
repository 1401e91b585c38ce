/**
 * Translates an agent's updates for an editor on the host. Each update is rebuilt from its known parts, with limited
 * size and with the workspace's paths on the host. Another path in the sandbox is no path on the host, so it is passed
 * on only as text.
 */
import type {
  ContentBlock,
  LoadSessionResponse,
  SessionConfigOption,
  SessionUpdate,
  ToolCall,
  ToolCallContent,
  ToolCallUpdate,
} from '@agentclientprotocol/sdk'
import type { WorkspacePaths } from './workspace-paths.ts'

/** Each field is present or absent, and never null. */
type ToolForEditor = Pick<ToolCall, 'toolCallId'> & Partial<ToolCall>

const MAX_TEXT = 256 * 1024
const MAX_FILE = 2 * 1024 * 1024
const MAX_MEDIA = 8 * 1024 * 1024
const MAX_RAW = 64 * 1024
const MAX_LINE = 1000
const MAX_PARTS = 256

/** Returns undefined for an update that is not passed on. */
export function updateForEditor(update: SessionUpdate, paths: WorkspacePaths): SessionUpdate | undefined {
  switch (update.sessionUpdate) {
    case 'user_message_chunk':
    case 'agent_message_chunk':
    case 'agent_thought_chunk': {
      const { sessionUpdate, messageId } = update
      const content = contentForEditor(update.content, paths)
      return { sessionUpdate, content, ...(messageId && { messageId: line(messageId) }) }
    }
    case 'tool_call':
      return { sessionUpdate: 'tool_call', ...toolForEditor(update, paths), title: titleOf(update, paths) }
    case 'tool_call_update':
      return { sessionUpdate: 'tool_call_update', ...toolForEditor(update, paths) }
    case 'plan':
      return {
        sessionUpdate: 'plan',
        entries: update.entries.slice(0, MAX_PARTS).map(({ content, priority, status }) => ({
          content: paths.textToHost(line(content)),
          priority,
          status,
        })),
      }
    case 'available_commands_update':
      return {
        sessionUpdate: 'available_commands_update',
        availableCommands: update.availableCommands
          .slice(0, MAX_PARTS)
          .map(({ name, description, input }) => ({
            name: line(name),
            description: line(description),
            ...(input && 'hint' in input && { input: { hint: line(input.hint) } }),
          })),
      }
    case 'current_mode_update':
      return { sessionUpdate: 'current_mode_update', currentModeId: line(update.currentModeId) }
    case 'config_option_update':
      return { sessionUpdate: 'config_option_update', configOptions: optionsOf(update.configOptions) }
    case 'session_info_update':
      return typeof update.title === 'string'
        ? { sessionUpdate: 'session_info_update', title: line(update.title) }
        : undefined
    case 'usage_update':
      return { sessionUpdate: 'usage_update', used: update.used, size: update.size }
    default:
      return undefined
  }
}

export function toolForEditor(tool: ToolCallUpdate, paths: WorkspacePaths): ToolForEditor {
  const { kind, status, title, content, locations, rawInput, rawOutput } = tool
  return {
    toolCallId: line(tool.toolCallId),
    ...(title && { title: titleOf(tool, paths) }),
    ...(kind && { kind }),
    ...(status && { status }),
    ...(content && { content: content.slice(0, MAX_PARTS).flatMap((part) => partForEditor(part, paths)) }),
    ...(locations && {
      locations: locations.slice(0, MAX_PARTS).flatMap(({ path, line: at }) => {
        const host = paths.toHost(path)
        return host === undefined ? [] : [{ path: host, ...(typeof at === 'number' && { line: at }) }]
      }),
    }),
    ...rawOf('rawInput', rawInput, paths),
    ...rawOf('rawOutput', rawOutput, paths),
  }
}

/** Translates the state of a session that was started or resumed. */
export function stateForEditor({ modes, configOptions }: LoadSessionResponse): LoadSessionResponse {
  return {
    ...(modes && {
      modes: {
        currentModeId: line(modes.currentModeId),
        availableModes: modes.availableModes.slice(0, MAX_PARTS).map(({ id, name, description }) => ({
          id: line(id),
          name: line(name),
          ...(description && { description: line(description) }),
        })),
      },
    }),
    ...(configOptions && { configOptions: optionsOf(configOptions) }),
  }
}

/** Returns the options unchanged, because the editor only shows them. If they are too large, returns none. */
function optionsOf(options: readonly SessionConfigOption[]): SessionConfigOption[] {
  return JSON.stringify(options).length > MAX_TEXT ? [] : [...options]
}

function contentForEditor(content: ContentBlock, paths: WorkspacePaths): ContentBlock {
  switch (content.type) {
    case 'text':
      return text(content.text)
    case 'image':
    case 'audio': {
      const { type, data, mimeType } = content
      if (data.length > MAX_MEDIA || !mimeType.startsWith(`${type}/`)) return text(`[${type}]`)
      return { type, data, mimeType: line(mimeType) }
    }
    case 'resource_link': {
      const uri = addressForEditor(content.uri, paths)
      if (uri === undefined) return text(line(content.uri))
      const { name, mimeType } = content
      return { type: 'resource_link', name: line(name), uri, ...(mimeType && { mimeType: line(mimeType) }) }
    }
    case 'resource': {
      const { resource } = content
      if (!('text' in resource)) return text(`[${line(resource.uri)}]`)
      const uri = addressForEditor(resource.uri, paths)
      if (uri === undefined) return text(resource.text)
      return { type: 'resource', resource: { uri, text: resource.text.slice(0, MAX_FILE) } }
    }
    default:
      return text('')
  }
}

/** Other schemes could contain commands for the editor or for the program that opens them. */
function addressForEditor(uri: string, paths: WorkspacePaths): string | undefined {
  if (uri.length > 4096) return undefined
  return /^https?:\/\//i.test(uri) ? uri : paths.uriToHost(uri)
}

/** Leaves out terminals: they belong to the editor, and an agent in a sandbox has none. */
function partForEditor(part: ToolCallContent, paths: WorkspacePaths): ToolCallContent[] {
  if (part.type === 'content') return [{ type: 'content', content: contentForEditor(part.content, paths) }]
  if (part.type !== 'diff') return []
  const { newText, oldText } = part
  const path = paths.toHost(part.path)
  const isTooLarge = newText.length + (oldText?.length ?? 0) > MAX_FILE
  if (path !== undefined && !isTooLarge)
    return [{ type: 'diff', path, newText, ...(typeof oldText === 'string' && { oldText }) }]
  const message = `in the sandbox, ${line(part.path)}:\n${isTooLarge ? '(large)' : newText}`
  return [{ type: 'content', content: text(message) }]
}

function rawOf(name: 'rawInput' | 'rawOutput', raw: unknown, paths: WorkspacePaths): object {
  if (raw === undefined || raw === null) return {}
  const json = JSON.stringify(raw)
  if (json === undefined || json.length > MAX_RAW) return {}
  return {
    [name]: JSON.parse(json, (_, value: unknown) =>
      typeof value === 'string' ? paths.textToHost(value) : value,
    ),
  }
}

function titleOf({ title }: { readonly title?: string | null }, paths: WorkspacePaths): string {
  return paths.textToHost(line(title ?? ''))
}

function text(words: string): ContentBlock {
  return { type: 'text', text: words.slice(0, MAX_TEXT) }
}

function line(words: string): string {
  return words.length > MAX_LINE ? `${words.slice(0, MAX_LINE)}…` : words
}
