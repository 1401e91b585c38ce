/** Leave for what an agent asks: as the prompt was typed, or by asking whoever is there. */
import { createInterface } from 'node:readline/promises'
import type { PendingTool } from '../../harnesses/acp/agent-events.ts'
import { isDisplayable } from '../../harnesses/acp/tool-call-text.ts'
import {
  decideTool,
  grantTools,
  listPermittedKinds,
  type PermissionDeps,
  type PermissionMode,
  revokeTools,
  type ToolDecision,
} from '../../run/prompts/permissions.ts'
import type { CliContext } from '../context.ts'
import { printable } from '../output.ts'
import { splitRows } from '../terminal-rows.ts'
import { dropTyped } from './discard-typeahead.ts'

export interface Permissions {
  /** `ask` is a question to a person, and is asked only where the mode says so. */
  decide(tool: PendingTool, ask: () => Promise<boolean>): Promise<ToolDecision>
  /** What was given leave for ends with the prompt. */
  end(): Promise<void>
}

/** An answer is used at once. */
const ANSWER_MS = 2 * 60_000
const MARK = '    │ '

export async function openPermissions(
  context: Pick<CliContext, 'clock'>,
  deps: PermissionDeps,
  mode: PermissionMode,
  untilMs: number,
): Promise<Permissions> {
  const permitted = listPermittedKinds(mode)
  const grantId = await grantTools(deps, permitted, untilMs)
  let asking: Promise<unknown> = Promise.resolve()
  const askAndRecord = async (tool: PendingTool, ask: () => Promise<boolean>): Promise<ToolDecision> => {
    // A yes to what nobody can read whole is a yes to anything.
    if (!isDisplayable(tool.asks))
      return { ...(await decideTool(deps, tool, undefined)), why: 'it is too long to show in full' }
    const once = (await ask())
      ? await grantTools(deps, [tool.kind], context.clock.nowMs() + ANSWER_MS, true)
      : undefined
    return decideTool(deps, tool, once)
  }
  return {
    decide(tool, ask) {
      if (permitted.includes(tool.kind) || mode !== 'ask') return decideTool(deps, tool, grantId)
      // One question at a time.
      const answer = asking.then(() => askAndRecord(tool, ask))
      asking = answer.catch(() => {})
      return answer
    },
    end: () => revokeTools(deps, grantId),
  }
}

/** Nobody at a terminal is nobody who could say yes. */
export async function askTerminal(
  context: CliContext,
  tool: Pick<PendingTool, 'kind' | 'asks'>,
  until: AbortSignal,
): Promise<boolean> {
  const { stdin, stderr } = context
  if (!stdin.isTTY || !stderr.isTTY || context.signal.aborted) return false
  const signal = AbortSignal.any([until, context.signal])
  // The terminal is read key by key meanwhile: Ctrl-C is a key, and means what it always means.
  const interrupt = () => process.kill(process.pid, 'SIGINT')
  await dropTyped(stdin, interrupt, signal)
  const lines = createInterface({ input: stdin, output: stderr })
  lines.on('SIGINT', interrupt)
  try {
    stderr.write(`\r\u001b[K${formatQuestion(tool, stderr.columns)}\n`)
    const count = tool.asks.split('\n').length
    const answer = await lines.question(`    allow ${count === 1 ? 'it' : `all ${count} lines`}? [y/N] `, {
      signal,
    })
    return /^y(?:es)?$/i.test(answer.trim())
  } catch {
    return false
  } finally {
    lines.close()
  }
}

/** All of it, each row behind a mark: what is asked cannot look like the question, or like its end. */
export function formatQuestion({ kind, asks }: Pick<PendingTool, 'kind' | 'asks'>, columns: number): string {
  const lines = asks.split('\n').map(printable)
  const [only] = lines
  if (lines.length === 1 && splitRows(`  ? ${kind}: ${only}`, columns).length === 1)
    return `  ? ${kind}: ${only}`
  const rows = lines.flatMap((line) => splitRows(line, columns - MARK.length))
  return [`  ? ${kind}:`, ...rows.map((row) => `${MARK}${row}`)].join('\n')
}
