/**
 * Runs one prompt from its beginning to its end: records it, decides on its permissions, watches the agent and returns
 * the result.
 */
import type { AgentEvent, PendingTool } from '../../harnesses/acp/agent-events.ts'
import { promptAgent } from '../../harnesses/acp/prompt-agent.ts'
import type { HarnessLogin } from '../../harnesses/harness.ts'
import type { StoredChangeSet } from '../../run/changes/change-set.ts'
import { ModelWatch, type Retrying } from '../../run/prompts/model-watch.ts'
import type { ToolDecision } from '../../run/prompts/permissions.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import { type PromptUsage, receiptsSoFar, usageSince } from '../../run/prompts/prompt-usage.ts'
import { changeRun } from '../../run/prompts/runs.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { jobTimeoutMs, prepareHarness, sessionTerms, startHarness, timeoutError } from './harness-agent.ts'
import { explainLoginError } from './harness-logins.ts'
import { askTerminal } from './prompt-permissions.ts'
import { beginRecordedRun, type PromptRunRequest } from './recorded-run.ts'
import { watchAgent } from './watch-agent.ts'

/** The longest delay of a timer in Node. A longer one would expire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

export interface PromptRequest extends Omit<PromptRunRequest, 'agentSession' | 'command'> {
  readonly login: HarnessLogin | undefined
  readonly model: string | undefined
  /** Called with the agent's own id of its session, before the agent gets the prompt. */
  readonly onSession?: (session: string) => void
}

export type PromptEvent =
  | AgentEvent
  | ({ readonly type: 'waiting' } & Retrying)
  | { readonly type: 'permission'; readonly tool: PendingTool; readonly decision: ToolDecision }

export interface PromptResult {
  readonly run: PromptRun
  readonly usage: PromptUsage
  readonly kept: StoredChangeSet | undefined
}

export async function runPrompt(
  context: CliContext,
  client: ApiClient,
  request: PromptRequest,
  onEvent: (event: PromptEvent) => void,
  onBegun: (run: PromptRun) => void,
  /** Called with the result of a failed prompt, before the error is thrown. */
  onFailed: (result: PromptResult) => Promise<void>,
): Promise<PromptResult> {
  const { harness, login, model, permissions: mode, sandbox } = request
  const store = await context.store()
  const agentSession = request.resumes?.agent_session ?? null
  const wanted = {
    harness,
    login,
    model,
    permissions: mode,
    sandboxId: sandbox.id,
    session: agentSession,
  }
  await prepareHarness(context, client, wanted)
  const from = await receiptsSoFar(store)
  const { begun, permissions, end, fail } = await beginRecordedRun(context, client, {
    ...request,
    agentSession,
    command: 'craik prompt',
  })
  onBegun(begun)
  const watch = new ModelWatch(store, harness, sandbox.id, from, context.clock)
  let timer: NodeJS.Timeout | undefined
  try {
    const { timeoutMs } = request
    // At its own limit, the sandbox kills the agent without asking it to stop first. That limit is for the case that
    // this command is gone.
    const agent = startHarness(context, client, wanted, jobTimeoutMs(timeoutMs))
    const deadline = new AbortController()
    timer = setTimeout(
      () => deadline.abort(timeoutError(harness, timeoutMs, 'prompt')),
      Math.min(timeoutMs, MAX_TIMER_MS),
    )
    const isCancelled = () => context.signal.aborted
    const work = (refused: AbortSignal) => {
      const giveUp = AbortSignal.any([refused, deadline.signal])
      return promptAgent(agent, {
        giveUp,
        harness: harness.name,
        cwd: INSIDE.workspace,
        text: request.text,
        onEvent,
        sessionId: agentSession ?? undefined,
        terms: sessionTerms(wanted),
        onSession: async (session) => {
          await watch.restart()
          giveUp.throwIfAborted()
          request.onSession?.(session)
          await changeRun(store, { id: begun.id, agentSession: session })
        },
        async permit(tool, until) {
          const decision = await permissions.decide(tool, () => askTerminal(context, tool, until))
          onEvent({ type: 'permission', tool, decision })
          return decision.allowed
        },
        cancel: context.signal,
        kill: context.kill,
      })
    }
    const { stopReason } = await watchAgent(watch, isCancelled, work, (retrying) =>
      onEvent({ type: 'waiting', ...retrying }),
    )
    const ended = await end(stopReason === 'cancelled' ? 'cancelled' : 'completed', stopReason)
    return { ...ended, usage: await usageSince(store, sandbox.id, from) }
  } catch (error) {
    const ended = await fail(error, context.signal.aborted)
    await onFailed({ ...ended, usage: await usageSince(store, sandbox.id, from) })
    throw await explainLoginError(context, harness, error)
  } finally {
    clearTimeout(timer)
    await permissions.end()
  }
}
