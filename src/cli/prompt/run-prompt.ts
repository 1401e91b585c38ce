/** One prompt from its beginning to its end: kept, given leave, watched, and what came of it told. */
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
import { jobTimeoutMs, outOfTime, readyHarness, sessionTerms, startHarness } from './harness-agent.ts'
import { moreOfLogin } from './harness-logins.ts'
import { askTerminal } from './prompt-permissions.ts'
import { beginRecordedRun, type RunRequest } from './recorded-run.ts'
import { watchAgent } from './watch-agent.ts'

/** Of Node: a longer one would be over at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

export interface PromptRequest extends Omit<RunRequest, 'agentSession' | 'command'> {
  readonly login: HarnessLogin | undefined
  readonly model: string | undefined
  /** What the agent calls its session, before it is told anything. */
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
  /** What is left of one that failed, before that is thrown. */
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
  await readyHarness(context, client, wanted)
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
    // The sandbox ends the agent at its own limit, without asking it to stop first. That is for when this command is gone.
    const agent = startHarness(context, client, wanted, jobTimeoutMs(timeoutMs))
    const deadline = new AbortController()
    timer = setTimeout(
      () => deadline.abort(outOfTime(harness, timeoutMs, 'prompt')),
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
    throw await moreOfLogin(context, harness, error)
  } finally {
    clearTimeout(timer)
    await permissions.end()
  }
}
