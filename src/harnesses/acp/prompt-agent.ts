/**
 * Sends one prompt to an agent over the Agent Client Protocol. It starts or resumes a session, sends the prompt, and
 * closes the connection.
 */
import type { StopReason } from '@agentclientprotocol/sdk'
import type { SessionOptions } from '../harness.ts'
import type { AgentEvent, PendingTool } from './agent-events.ts'
import { AgentConnection, type AgentTimeouts, cancelled } from './agent-link.ts'
import type { AgentProcess } from './agent-process.ts'

export interface AgentPrompt {
  /** The harness's name in errors. */
  readonly harness: string
  /** The agent's working directory in the sandbox. */
  readonly cwd: string
  readonly text: string
  /** The session of an earlier prompt, to continue it. */
  readonly sessionId?: string | undefined
  readonly terms?: SessionOptions
  /** Called before the prompt is sent. */
  readonly onSession?: (sessionId: string) => void | Promise<void>
  readonly onEvent: (event: AgentEvent) => void
  /** Decides whether the agent may do what it requests permission for. */
  readonly permit: (tool: PendingTool, until: AbortSignal) => Promise<boolean>
  /** Aborts to ask the agent to stop. It then has a short time to confirm. */
  readonly cancel: AbortSignal
  /** Aborts to end everything without waiting. */
  readonly kill: AbortSignal
  /** Aborts with an error to give up on the agent. */
  readonly giveUp?: AbortSignal
  readonly timeouts?: Partial<AgentTimeouts>
}

export interface PromptEnd {
  readonly sessionId: string
  readonly stopReason: StopReason
}

export async function promptAgent(process: AgentProcess, request: AgentPrompt): Promise<PromptEnd> {
  const { harness, cwd, text, terms, kill, cancel, timeouts } = request
  // Updates that arrive while a session resumes repeat its earlier messages.
  let isReported = false
  const link = new AgentConnection(process, {
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
    // Nothing was sent yet, and the session is not on record. From here on the agent always gets the prompt, so that it
    // saves the session.
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
