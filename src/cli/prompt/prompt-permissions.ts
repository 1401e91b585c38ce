/** Decides on the requests of an agent: by the mode of the prompt, or by asking the user. */
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
import { discardTypeahead } from './discard-typeahead.ts'

export interface Permissions {
  /** `ask` asks the user. It is called only if the mode requires a question. */
  decide(tool: PendingTool, ask: () => Promise<boolean>): Promise<ToolDecision>
  /** Ends the permissions together with the prompt. */
  end(): Promise<void>
}

/** The lifetime of a grant that follows an answer. The grant is used at once. */
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
    // Approving a request that the user cannot read in full would approve anything.
    if (!isDisplayable(tool.requestText))
      return { ...(await decideTool(deps, tool, undefined)), why: 'it is too long to show in full' }
    const once = (await ask())
      ? await grantTools(deps, [tool.kind], context.clock.nowMs() + ANSWER_MS, true)
      : undefined
    return decideTool(deps, tool, once)
  }
  return {
    decide(tool, ask) {
      if (permitted.includes(tool.kind) || mode !== 'ask') return decideTool(deps, tool, grantId)
      // Asks one question at a time.
      const answer = asking.then(() => askAndRecord(tool, ask))
      asking = answer.catch(() => {})
      return answer
    },
    end: () => revokeTools(deps, grantId),
  }
}

/** Returns false if there is no terminal, because no user can approve then. */
export async function askTerminal(
  context: CliContext,
  tool: Pick<PendingTool, 'kind' | 'requestText'>,
  until: AbortSignal,
): Promise<boolean> {
  const { stdin, stderr } = context
  if (!stdin.isTTY || !stderr.isTTY || context.signal.aborted) return false
  const signal = AbortSignal.any([until, context.signal])
  // The terminal is in raw mode meanwhile, so Ctrl-C arrives as a key. It must still interrupt the command.
  const interrupt = () => process.kill(process.pid, 'SIGINT')
  await discardTypeahead(stdin, interrupt, signal)
  const lines = createInterface({ input: stdin, output: stderr })
  lines.on('SIGINT', interrupt)
  try {
    stderr.write(`\r\u001b[K${formatQuestion(tool, stderr.columns)}\n`)
    const count = tool.requestText.split('\n').length
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

/** Shows the whole request with a mark before each row, so that nothing in it can look like the question or its end. */
export function formatQuestion(
  { kind, requestText: asks }: Pick<PendingTool, 'kind' | 'requestText'>,
  columns: number,
): string {
  const lines = asks.split('\n').map(printable)
  const [only] = lines
  if (lines.length === 1 && splitRows(`  ? ${kind}: ${only}`, columns).length === 1)
    return `  ? ${kind}: ${only}`
  const rows = lines.flatMap((line) => splitRows(line, columns - MARK.length))
  return [`  ? ${kind}:`, ...rows.map((row) => `${MARK}${row}`)].join('\n')
}
