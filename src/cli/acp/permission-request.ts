/**
 * Describes a permission request for an editor. The title contains the whole request, and so does the content if there
 * are several lines, because an editor may show only one of them.
 */
import type { ToolCallContent, ToolCallUpdate } from '@agentclientprotocol/sdk'
import type { PendingTool } from '../../harnesses/acp/agent-events.ts'
import { toolForEditor } from '../../harnesses/acp/for-editor.ts'
import type { WorkspacePaths } from '../../harnesses/acp/workspace-paths.ts'
import { printable } from '../output.ts'

/** Shows exactly what the user decides on, whatever title the agent chose for it. */
export function describeForEditor(
  request: ToolCallUpdate,
  { kind, requestText: asks }: PendingTool,
  paths: WorkspacePaths,
) {
  const tool = toolForEditor(request, paths)
  const lines = paths.textToHost(asks).split('\n').map(printable)
  const content = [...(lines.length > 1 ? [fenceLines(lines)] : []), ...(tool.content ?? [])]
  return { ...tool, kind, title: lines.join('␤'), ...(content.length > 0 && { content }) }
}

/** Editors render Markdown, which would join the lines and could hide parts of them. */
function fenceLines(lines: readonly string[]): ToolCallContent {
  const longest = Math.max(2, ...lines.flatMap((line) => line.match(/`+/g) ?? []).map(({ length }) => length))
  const fence = '`'.repeat(longest + 1)
  return { type: 'content', content: { type: 'text', text: [fence, ...lines, fence].join('\n') } }
}
