/**
 * One session of an editor: an agent in a sandbox that gets one prompt after another. Craik records each prompt as a
 * run of its own.
 */
import type {
  AgentContext,
  ContentBlock,
  LoadSessionResponse,
  PermissionOption,
  PromptCapabilities,
  PromptResponse,
  SessionUpdate,
  StopReason,
  ToolCallUpdate,
} from '@agentclientprotocol/sdk'
import { CraikError } from '../../errors.ts'
import type { PendingTool } from '../../harnesses/acp/agent-events.ts'
import { AgentConnection } from '../../harnesses/acp/agent-link.ts'
import { promptForAgent } from '../../harnesses/acp/for-agent.ts'
import { stateForEditor, updateForEditor } from '../../harnesses/acp/for-editor.ts'
import { type WorkspacePaths, workspacePaths } from '../../harnesses/acp/workspace-paths.ts'
import type { Harness, HarnessLogin } from '../../harnesses/harness.ts'
import { ModelWatch } from '../../run/prompts/model-watch.ts'
import type { PermissionMode } from '../../run/prompts/permissions.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import { receiptsSoFar } from '../../run/prompts/prompt-usage.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { INSIDE, LIMITS } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { prepareHarness, sessionTerms, startHarness, timeoutError } from '../prompt/harness-agent.ts'
import { explainLoginError } from '../prompt/harness-logins.ts'
import { ensureRunning, type PromptSandbox } from '../prompt/prompt-sandbox.ts'
import { beginRecordedRun, type EndedPromptRun, type RecordedRun } from '../prompt/recorded-run.ts'
import { watchAgent } from '../prompt/watch-agent.ts'
import { describeChanges } from './change-messages.ts'
import type { Outbox } from './outbox.ts'
import { describeForEditor } from './permission-request.ts'
import { sessionIdOf } from './session-id.ts'

export interface EditorSessionOptions {
  /** Its `signal` also aborts when the editor disconnects. */
  readonly context: CliContext
  readonly client: ApiClient
  readonly editor: AgentContext
  readonly outbox: Outbox
  readonly harness: Harness
  readonly login: HarnessLogin | undefined
  readonly model: string | undefined
  readonly permissions: PermissionMode
  readonly timeoutMs: number
  readonly isApplied: boolean
}

/**
 * The longest time that one agent process runs. A longer session continues with a new process. If this command is
 * killed, only this limit and the timeout of a prompt end the agent. Together they are at most the limit of a job, so a
 * prompt with a timeout of almost a week can end a few hours early.
 */
const AGENT_MS = 4 * 3600_000
/** The most updates that wait until the editor has the session id. */
const MAX_HELD = 64
const OPTIONS: PermissionOption[] = [
  { optionId: 'allow', name: 'Allow', kind: 'allow_once' },
  { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
]

export class EditorSession {
  readonly #options: EditorSessionOptions
  readonly #sandbox: PromptSandbox
  readonly #paths: WorkspacePaths
  #agentSession: string | undefined
  #last: PromptRun | undefined
  #isBroughtOver = false
  #link: AgentConnection | undefined
  #linkedAtMs = 0
  #waking: Promise<AgentConnection> | undefined
  #takes: PromptCapabilities = {}
  #run: RecordedRun | undefined
  #cancel: AbortController | undefined
  /** The current prompt. Never rejects. */
  #currentPrompt: Promise<unknown> | undefined
  /**
   * `told`: updates go to the editor. `held`: updates wait until the editor has the session id. `known`: the updates
   * repeat what the editor has already, so Craik drops them.
   */
  #updateState: 'told' | 'held' | 'known' = 'held'
  /** The mode that the user chose in the editor. A new agent process that continues the session gets it too. */
  #modeId: string | undefined
  readonly #configured = new Map<string, string | boolean>()
  #held: SessionUpdate[] = []
  id = ''

  constructor(options: EditorSessionOptions, sandbox: PromptSandbox) {
    this.#options = options
    this.#sandbox = sandbox
    this.#paths = workspacePaths(sandbox.workspace, INSIDE.workspace)
  }

  /** Starts a new session. Its updates wait until `release`. */
  async begin(): Promise<LoadSessionResponse> {
    return this.#start()
  }

  /** Loads the session of an earlier run under the editor's id for it. The agent sends the whole conversation again. */
  async load(id: string, run: PromptRun & { readonly agent_session: string }): Promise<LoadSessionResponse> {
    this.#last = run
    this.#agentSession = run.agent_session
    this.id = id
    this.#updateState = 'told'
    return this.#start()
  }

  /** Sends the waiting updates, because the editor has the session id now. */
  release(): void {
    this.#updateState = 'told'
    for (const update of this.#held.splice(0)) this.#options.outbox.send(this.id, update)
  }

  async prompt(blocks: readonly ContentBlock[], until: AbortSignal): Promise<PromptResponse> {
    if (this.#cancel !== undefined)
      throw new CraikError('usage', 'a prompt is already running in this session', {
        hint: 'stop the running prompt in the editor (session/cancel), or wait until it ends',
      })
    const cancel = new AbortController()
    this.#cancel = cancel
    const stop = () => cancel.abort()
    until.addEventListener('abort', stop, { once: true })
    const pending = this.#ask(blocks, cancel.signal)
    this.#currentPrompt = pending.catch(() => {})
    try {
      return await pending
    } finally {
      until.removeEventListener('abort', stop)
      this.#cancel = undefined
    }
  }

  cancel(): void {
    this.#cancel?.abort()
  }

  async setMode(modeId: string): Promise<void> {
    await (await this.#ensureAgent()).setMode(modeId)
    this.#modeId = modeId
  }

  async setConfigOption(configId: string, value: string | boolean): Promise<LoadSessionResponse> {
    const state = await (await this.#ensureAgent()).setConfigOption(configId, value)
    this.#configured.set(configId, value)
    return stateForEditor(state)
  }

  /** Cancels the current prompt. The agent gets time to confirm that, and to save the conversation. */
  async close(): Promise<void> {
    this.cancel()
    await this.#currentPrompt
    await this.#link?.close()
  }

  async #ask(blocks: readonly ContentBlock[], cancel: AbortSignal): Promise<PromptResponse> {
    const { context, client, harness, permissions, timeoutMs } = this.#options
    const { sandbox, workspace } = this.#sandbox
    const link = await this.#ensureAgent()
    const prompt = promptForAgent(blocks, this.#paths, this.#takes, harness.name)
    const store = await context.store()
    const from = await receiptsSoFar(store)
    const run = await beginRecordedRun(context, client, {
      command: 'craik acp',
      harness,
      permissions,
      timeoutMs,
      sandbox,
      workspace,
      text: JSON.stringify(blocks),
      resumes: this.#last,
      isBroughtOver: this.#isBroughtOver,
      madeSandbox: this.#sandbox.made && this.#last === undefined,
      agentSession: this.#agentSession ?? null,
    })
    this.#run = run
    const watch = new ModelWatch(store, harness, sandbox.id, from, context.clock)
    try {
      const turn = await this.#turn(link, prompt, cancel, watch)
      const { stopReason } = turn
      const isCancelled = stopReason === 'cancelled'
      await this.#onRunEnd(
        'error' in turn
          ? await run.fail(turn.error, isCancelled)
          : await run.end(isCancelled ? 'cancelled' : 'completed', stopReason),
      )
      if ('error' in turn && !isCancelled) throw await explainLoginError(context, harness, turn.error)
      return { stopReason }
    } finally {
      this.#run = undefined
      await run.permissions.end()
    }
  }

  async #turn(
    link: AgentConnection,
    prompt: ContentBlock[],
    cancel: AbortSignal,
    watch: ModelWatch,
  ): Promise<{ readonly stopReason: StopReason; readonly error?: unknown }> {
    const { context, harness, timeoutMs } = this.#options
    const deadline = AbortSignal.timeout(timeoutMs)
    const isCancelled = () => cancel.aborted || context.signal.aborted
    try {
      return await watchAgent(watch, isCancelled, async (giveUp) => {
        giveUp.addEventListener('abort', () => link.giveUp(giveUp.reason), { once: true })
        const stopReason = await link.turn(prompt, AbortSignal.any([cancel, deadline]))
        if (deadline.aborted && !isCancelled()) throw timeoutError(harness, timeoutMs, 'acp')
        return { stopReason }
      })
    } catch (error) {
      // Craik no longer needs anything that the agent still does.
      if (link.isBroken) await link.close()
      const isOutOfTime = deadline.aborted && error instanceof CraikError && error.code === 'interrupted'
      return {
        stopReason: isCancelled() ? 'cancelled' : 'end_turn',
        error: isOutOfTime && !isCancelled() ? timeoutError(harness, timeoutMs, 'acp') : error,
      }
    }
  }

  async #onRunEnd(ended: EndedPromptRun): Promise<void> {
    const { context, outbox, isApplied } = this.#options
    this.#last = ended.run
    if (context.signal.aborted) return
    const { words, isBroughtOver } = await describeChanges(context, ended, isApplied)
    this.#isBroughtOver = isBroughtOver
    if (words === undefined) return
    const content = { type: 'text' as const, text: `\n\n---\n${words}\n` }
    outbox.send(this.id, { sessionUpdate: 'agent_message_chunk', content })
  }

  /** Returns the agent. If it has ended, starts another one that continues its session. */
  #ensureAgent(): Promise<AgentConnection> {
    this.#waking ??= this.#restartAgent().finally(() => {
      this.#waking = undefined
    })
    return this.#waking
  }

  async #restartAgent(): Promise<AgentConnection> {
    const { context, client, harness } = this.#options
    const isOld = context.clock.nowMs() - this.#linkedAtMs > AGENT_MS
    if (this.#link !== undefined && !this.#link.isBroken && !isOld) return this.#link
    await this.#link?.close()
    await ensureRunning(context, client, this.#sandbox.sandbox.id, harness)
    this.#updateState = 'known'
    await this.#start()
    const link = this.#link!
    if (this.#modeId !== undefined) await link.setMode(this.#modeId)
    for (const [id, value] of this.#configured) await link.setConfigOption(id, value)
    this.#updateState = 'told'
    return link
  }

  async #start(): Promise<LoadSessionResponse> {
    const { context, client, harness, login, model, permissions, outbox, timeoutMs } = this.#options
    const sandboxId = this.#sandbox.sandbox.id
    const wanted = { harness, login, model, permissions, sandboxId, session: this.#agentSession }
    await prepareHarness(context, client, wanted)
    const job = startHarness(context, client, wanted, Math.min(AGENT_MS + timeoutMs, LIMITS.maxTimeoutMs))
    const link = new AgentConnection(
      { ...job, output: outbox.limitOutput(job.output) },
      {
        harness: harness.name,
        cwd: INSIDE.workspace,
        kill: context.kill,
        terms: sessionTerms(wanted),
        onUpdate: (update) => this.#onUpdate(update),
        permit: (tool, request, until) => this.#permit(tool, request, until),
      },
    )
    this.#link = link
    this.#linkedAtMs = context.clock.nowMs()
    // An agent that has no session yet has nothing to save, so it gets no time when the editor disconnects.
    const release = () => link.giveUp(new CraikError('interrupted', 'the editor disconnected'))
    context.signal.addEventListener('abort', release, { once: true })
    if (context.signal.aborted) release()
    try {
      const { sessionId, promptCapabilities: takes, state } = await link.open(this.#agentSession)
      if (this.id === '') this.id = sessionIdOf(sandboxId, sessionId, harness.name)
      this.#agentSession = sessionId
      this.#takes = takes
      return stateForEditor(state)
    } catch (error) {
      await link.close()
      throw error
    } finally {
      context.signal.removeEventListener('abort', release)
    }
  }

  #onUpdate(update: SessionUpdate): void {
    if (this.#updateState === 'known') return
    const reported = updateForEditor(update, this.#paths)
    if (reported === undefined) return
    if (this.#updateState === 'told') this.#options.outbox.send(this.id, reported)
    else if (this.#held.length < MAX_HELD) this.#held.push(reported)
  }

  async #permit(tool: PendingTool, request: ToolCallUpdate, until: AbortSignal): Promise<boolean> {
    const run = this.#run
    if (run === undefined) return false
    const { allowed, rule, receiptId, why } = await run.permissions.decide(tool, () =>
      this.#askEditor(tool, request, until),
    )
    if (!allowed)
      this.#options.context.stderr.write(
        `craik: ${tool.kind} denied by ${rule}${why === undefined ? '' : `: ${why}`} · receipt ${receiptId}\n`,
      )
    return allowed
  }

  async #askEditor(tool: PendingTool, request: ToolCallUpdate, until: AbortSignal): Promise<boolean> {
    const toolCall = describeForEditor(request, tool, this.#paths)
    try {
      const { outcome } = await this.#options.editor.request(
        'session/request_permission',
        { sessionId: this.id, toolCall, options: OPTIONS },
        { cancellationSignal: until, stopWaitingOnCancel: true },
      )
      return outcome.outcome === 'selected' && outcome.optionId === 'allow'
    } catch {
      return false
    }
  }
}
