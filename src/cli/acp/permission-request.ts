/** What leave is asked for, as an editor shows it: all of it, whichever of the two it looks at. */
import type { ToolCallContent, ToolCallUpdate } from '@agentclientprotocol/sdk'
import type { PendingTool } from '../../harnesses/acp/agent-events.ts'
import { toolForEditor } from '../../harnesses/acp/for-editor.ts'
import type { WorkspacePaths } from '../../harnesses/acp/workspace-paths.ts'
import { printable } from '../output.ts'

/** What is shown is what is decided on, whatever else the agent calls it. */
export function describeForEditor(
  request: ToolCallUpdate,
  { kind, asks }: PendingTool,
  paths: WorkspacePaths,
) {
  const tool = toolForEditor(request, paths)
  const lines = paths.textToHost(asks).split('\n').map(printable)
  const content = [...(lines.length > 1 ? [fenceLines(lines)] : []), ...(tool.content ?? [])]
  return { ...tool, kind, title: lines.join('␤'), ...(content.length > 0 && { content }) }
}

/** Editors read Markdown: lines would run together in it, and parts of them could be hidden. */
function fenceLines(lines: readonly string[]): ToolCallContent {
  const longest = Math.max(2, ...lines.flatMap((line) => line.match(/`+/g) ?? []).map(({ length }) => length))
  const fence = '`'.repeat(longest + 1)
  return { type: 'content', content: { type: 'text', text: [fence, ...lines, fence].join('\n') } }
}
