/** Leave for what an agent asks: as the prompt was typed, or by asking whoever is there. */
import { createInterface } from 'node:readline/promises'
import type { ToolState } from '../../harnesses/acp/events.ts'
import {
  decideTool,
  grantTools,
  leaveOf,
  type PermissionMode,
  type PermissionPlace,
  revokeTools,
  type ToolDecision,
} from '../../run/prompts/permissions.ts'
import type { CliContext } from '../context.ts'
import { printable } from '../output.ts'

export interface Permissions {
  /** `ask` is a question to a person, and is asked only where the mode says so. */
  decide(tool: ToolState, ask: () => Promise<boolean>): Promise<ToolDecision>
  /** What was given leave for ends with the prompt. */
  end(): Promise<void>
}

/** An answer is used at once. */
const ANSWER_MS = 2 * 60_000

export async function openPermissions(
  context: Pick<CliContext, 'clock'>,
  place: PermissionPlace,
  mode: PermissionMode,
  untilMs: number,
): Promise<Permissions> {
  const leave = leaveOf(mode)
  const grantId = await grantTools(place, leave, untilMs)
  let asking: Promise<unknown> = Promise.resolve()
  const answered = async (tool: ToolState, ask: () => Promise<boolean>): Promise<ToolDecision> => {
    const once = (await ask())
      ? await grantTools(place, [tool.kind], context.clock.nowMs() + ANSWER_MS, true)
      : undefined
    return decideTool(place, tool, once)
  }
  return {
    decide(tool, ask) {
      if (leave.includes(tool.kind) || mode !== 'ask') return decideTool(place, tool, grantId)
      // One question at a time.
      const answer = asking.then(() => answered(tool, ask))
      asking = answer.catch(() => {})
      return answer
    },
    end: () => revokeTools(place, grantId),
  }
}

/** Nobody at a terminal is nobody who could say yes. */
export async function askTerminal(
  context: CliContext,
  { kind, title }: ToolState,
  until: AbortSignal,
): Promise<boolean> {
  const { stdin, stderr } = context
  if (!stdin.isTTY || !stderr.isTTY || context.signal.aborted) return false
  const lines = createInterface({ input: stdin, output: stderr })
  // The terminal is read key by key meanwhile: Ctrl-C is a key, and means what it always means.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    const question = `\r\u001b[K  ? ${kind}: ${printable(title)}\n    allow it? [y/N] `
    const answer = await lines.question(question, { signal: AbortSignal.any([until, context.signal]) })
    return /^y(?:es)?$/i.test(answer.trim())
  } catch {
    return false
  } finally {
    lines.close()
  }
}
