/** One prompt to an agent over the Agent Client Protocol: a session is begun or taken up again, asked once, and left. */
import type { StopReason } from '@agentclientprotocol/sdk'
import type { SessionTerms } from '../harness.ts'
import type { AgentEvent, PendingTool } from './agent-events.ts'
import { AgentLink, type AgentTimeouts, cancelled } from './agent-link.ts'
import type { AgentProcess } from './agent-process.ts'

export interface AgentPrompt {
  /** What it is called in errors. */
  readonly harness: string
  /** Where it works, inside. */
  readonly cwd: string
  readonly text: string
  /** A session of an earlier prompt, which goes on. */
  readonly sessionId?: string | undefined
  readonly terms?: SessionTerms
  /** Before anything is said in it. */
  readonly onSession?: (sessionId: string) => void | Promise<void>
  readonly onEvent: (event: AgentEvent) => void
  /** Whether it may do what it asks leave for. */
  readonly permit: (tool: PendingTool, until: AbortSignal) => Promise<boolean>
  /** Aborts: the agent is asked to stop, and has a while to say that it did. */
  readonly cancel: AbortSignal
  /** Aborts: nothing is waited for any more. */
  readonly kill: AbortSignal
  /** Aborts with an error: the agent is given up for it. */
  readonly giveUp?: AbortSignal
  readonly timeouts?: Partial<AgentTimeouts>
}

export interface PromptEnd {
  readonly sessionId: string
  readonly stopReason: StopReason
}

export async function promptAgent(process: AgentProcess, request: AgentPrompt): Promise<PromptEnd> {
  const { harness, cwd, text, terms, kill, cancel, timeouts } = request
  // What is told of a session that is taken up again is what was said before.
  let isReported = false
  const link = new AgentLink(process, {
    harness,
    cwd,
    terms,
    kill,
    timeouts: timeouts,
    onUpdate(_, event) {
      if (isReported && event !== undefined) request.onEvent(event)
    },
    permit: (tool, _, until) => request.permit(tool, until),
  })
  const { giveUp } = request
  giveUp?.addEventListener('abort', () => link.giveUp(giveUp.reason), { once: true })
  try {
    const { sessionId } = await link.open(request.sessionId)
    // Nothing was said yet, and the session is on no record. From here on the agent gets the prompt, so that it writes the session down.
    if (cancel.aborted) throw cancelled()
    giveUp?.throwIfAborted()
    await request.onSession?.(sessionId)
    isReported = true
    const stopReason = await link.turn([{ type: 'text', text }], cancel)
    return { sessionId, stopReason }
  } finally {
    await link.close()
  }
}
