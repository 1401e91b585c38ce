/**
 * A connection to an agent over the Agent Client Protocol. It starts or resumes a session and sends prompts to it, turn
 * after turn. Every wait here has a limit. The agent's messages are only text: it can report and request permission,
 * and can call no other method.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ContentBlock,
  client,
  type LoadSessionResponse,
  type NewSessionRequest,
  ndJsonStream,
  type PromptCapabilities,
  RequestError,
  type SessionUpdate,
  type StopReason,
  type ToolCallUpdate,
} from '@agentclientprotocol/sdk'
import { CraikError } from '../../errors.ts'
import type { SessionOptions } from '../harness.ts'
import { type AgentEvent, type PendingTool, type ToolState, UpdateTracker } from './agent-events.ts'
import { agentFailure } from './agent-failure.ts'
import type { AgentProcess } from './agent-process.ts'
import { limitInput } from './bounded-input.ts'

export interface AgentLinkOptions {
  /** The harness's name in errors. */
  readonly harness: string
  /** The agent's working directory in the sandbox. */
  readonly cwd: string
  readonly terms?: SessionOptions | undefined
  /**
   * Receives each update as it arrives, also in Craik's own form. This includes the updates that an agent repeats when
   * a session resumes.
   */
  readonly onUpdate: (update: SessionUpdate, event: AgentEvent | undefined) => void
  /** Decides whether the agent may do what it requests permission for. Called only during a turn. */
  readonly permit: (tool: PendingTool, request: ToolCallUpdate, until: AbortSignal) => Promise<boolean>
  /** Aborts to end everything without waiting. */
  readonly kill: AbortSignal
  readonly timeouts?: Partial<AgentTimeouts> | undefined
}

export interface AgentTimeouts {
  /** The longest time from the agent's start until it has a session. */
  readonly readyMs: number
  /** The longest time without a message from the agent while no tool runs. */
  readonly silentMs: number
  /**
   * When Craik gives up on an agent that sent nothing in this turn, it waits this long before it asks the agent to
   * stop. The agent may not have read the prompt yet.
   */
  readonly readMs: number
  /** The longest time until the agent confirms that it stopped, after a request to stop. */
  readonly cancelMs: number
  /** The longest time until the agent exits by itself, after the end of its input. */
  readonly exitMs: number
}

export interface ConnectionSession {
  readonly sessionId: string
  /** The content that a prompt can contain besides text and links. */
  readonly promptCapabilities: PromptCapabilities
  readonly state: Pick<LoadSessionResponse, 'modes' | 'configOptions'>
}

/**
 * On an idle host, agents stop within a second and exit within two. A busy host needs ten times as long. An agent that
 * is killed earlier loses what it has not saved yet. Only an agent that hangs makes the user wait, and a second Ctrl-C
 * kills it.
 */
const DEFAULT_TIMEOUTS: AgentTimeouts = {
  readyMs: 90_000,
  silentMs: 10 * 60_000,
  readMs: 5_000,
  cancelMs: 10_000,
  exitMs: 20_000,
}
/** How long an agent may take to stop and to exit. */
export const AGENT_STOP_MS = DEFAULT_TIMEOUTS.readMs + DEFAULT_TIMEOUTS.cancelMs + DEFAULT_TIMEOUTS.exitMs
/** The limit for one message. Agents send whole files in a message. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024
/** More than the largest prompt. */
const MAX_UNREAD_BYTES = 128 * 1024 * 1024
const MAX_SESSION_ID = 200
/** The most permission requests that can wait for a decision. Craik refuses further ones. */
const MAX_PENDING_REQUESTS = 64

interface Turn {
  readonly cancel: AbortSignal
  readonly over: AbortController
  /** Tools that started and have not ended. */
  readonly running: Set<string>
  asking: number
  /**
   * True when the agent sent something or acted, so it has read the prompt. Lists of its commands can arrive late and
   * do not count.
   */
  hasReadPrompt: boolean
}

export class AgentConnection {
  readonly #process: AgentProcess
  readonly #options: AgentLinkOptions
  readonly #timeouts: AgentTimeouts
  /** The updates of this turn, which hold the state of each tool. */
  #updates = new UpdateTracker()
  readonly #input: WritableStream<Uint8Array>
  readonly #connection
  readonly #broken = Promise.withResolvers<never>()
  #isBroken = false
  /** The agent neither reads nor sends anything, so Craik does not wait for it. */
  #isStuck = false
  /** The agent has a session, which it may still have to save. */
  #isOpen = false
  #hasGivenUp: CraikError | undefined
  #sessionId = ''
  #turn: Turn | undefined
  #silence: NodeJS.Timeout | undefined
  #closed: Promise<void> | undefined
  readonly #killed = () => this.#break(cancelled())

  constructor(process: AgentProcess, options: AgentLinkOptions) {
    this.#process = process
    this.#options = options
    this.#timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts }
    this.#broken.promise.catch(() => {})
    silenceLibrary()
    const app = client({ name: 'craik' })
      .onNotification('session/update', ({ params }) => this.#onUpdate(params.update))
      .onRequest('session/request_permission', async ({ params }) => {
        this.#listen()
        const isAllowed = await this.#permit(this.#updates.describeRequest(params.toolCall), params.toolCall)
        const kind = isAllowed ? 'allow_once' : 'reject_once'
        const option = params.options.find((each) => each.kind === kind)
        return option === undefined
          ? { outcome: { outcome: 'cancelled' } }
          : { outcome: { outcome: 'selected', optionId: option.optionId } }
      })
    this.#input = limitInput(process.input, MAX_UNREAD_BYTES, () =>
      this.#breakStuck('the agent does not read its input'),
    )
    this.#connection = app.connect(
      ndJsonStream(this.#input, process.output, { maxMessageBytes: MAX_MESSAGE_BYTES }),
    )
    void process.ended.then(({ endDescription: how, errorOutput: complaint }) =>
      this.#break(agentFailure(options.harness, `the agent ${how}`, complaint)),
    )
    void this.#connection.closed.then(() => this.#failSoon())
    options.kill.addEventListener('abort', this.#killed, { once: true })
    if (options.kill.aborted) this.#break(cancelled())
  }

  /** True when the agent will not answer again. Another agent process has to resume its session. */
  get isBroken(): boolean {
    return this.#isBroken || this.#hasGivenUp !== undefined
  }

  /** Starts a new session or resumes the given one. Must be called once, before everything else. */
  async open(sessionId?: string): Promise<ConnectionSession> {
    const { agent } = this.#connection
    const { harness, cwd, terms = {} } = this.#options
    const { readyMs } = this.#timeouts
    const ready = this.#timer(readyMs, `the agent was not ready within ${readyMs / 1000} s`)
    try {
      const { protocolVersion, agentCapabilities } = await this.#until(
        agent.request('initialize', {
          protocolVersion: 1,
          clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
          clientInfo: { name: 'craik', version: '1' },
        }),
      )
      if (protocolVersion !== 1)
        throw agentFailure(
          harness,
          `the agent uses protocol version ${protocolVersion}, and Craik supports 1`,
          '',
        )
      const takes = agentCapabilities?.promptCapabilities ?? {}
      const requested = { cwd, mcpServers: [], ...(terms.meta && { _meta: terms.meta }) }
      const state = await this.#begin(requested, sessionId)
      const inMode = await this.#inMode(state, terms.modeId)
      this.#isOpen = true
      return { sessionId: this.#sessionId, promptCapabilities: takes, state: inMode }
    } finally {
      clearTimeout(ready)
    }
  }

  async #begin(
    request: NewSessionRequest,
    sessionId: string | undefined,
  ): Promise<ConnectionSession['state']> {
    const { agent } = this.#connection
    if (sessionId !== undefined) {
      const loaded = await this.#until(agent.request('session/load', { ...request, sessionId }))
      this.#sessionId = sessionId
      return loaded ?? {}
    }
    const begun = await this.#until(agent.request('session/new', request))
    this.#sessionId = begun.sessionId.slice(0, MAX_SESSION_ID)
    return begun
  }

  async #inMode(
    state: ConnectionSession['state'],
    modeId: string | undefined,
  ): Promise<ConnectionSession['state']> {
    const { modes } = state
    if (modeId === undefined || modes?.currentModeId === modeId) return state
    const { agent } = this.#connection
    await this.#until(agent.request('session/set_mode', { sessionId: this.#sessionId, modeId }))
    return { ...state, ...(modes && { modes: { ...modes, currentModeId: modeId } }) }
  }

  /**
   * Sends a prompt; only one turn can run at a time. `cancel` asks the agent to stop and gives it a short time to
   * confirm. The agent gets the prompt even after `cancel`: the session is already on record, and some agents save no
   * session without a message.
   */
  async turn(prompt: ContentBlock[], cancel: AbortSignal): Promise<StopReason> {
    this.#updates = new UpdateTracker()
    this.#turn = { cancel, over: new AbortController(), running: new Set(), asking: 0, hasReadPrompt: false }
    this.#listen()
    const stop = () => this.#cancel(cancelled())
    cancel.addEventListener('abort', stop, { once: true })
    try {
      const { agent } = this.#connection
      const answered = agent.request('session/prompt', { sessionId: this.#sessionId, prompt })
      if (cancel.aborted) stop()
      if (this.#hasGivenUp !== undefined) this.#cancelWhenRead(this.#hasGivenUp)
      const { stopReason } = await this.#until(answered)
      if (cancel.aborted) return 'cancelled'
      if (this.#hasGivenUp !== undefined) throw this.#hasGivenUp
      return stopReason
    } catch (error) {
      if (cancel.aborted && !this.#isBroken && !this.#options.kill.aborted) return 'cancelled'
      throw this.#hasGivenUp ?? error
    } finally {
      cancel.removeEventListener('abort', stop)
      clearTimeout(this.#silence)
      this.#turn.over.abort()
      this.#turn = undefined
    }
  }

  async setMode(modeId: string): Promise<void> {
    const { agent } = this.#connection
    await this.#untilReady(agent.request('session/set_mode', { sessionId: this.#sessionId, modeId }))
  }

  async setConfigOption(configId: string, value: string | boolean): Promise<ConnectionSession['state']> {
    const { agent } = this.#connection
    const named = { sessionId: this.#sessionId, configId }
    const requested =
      typeof value === 'boolean' ? { ...named, type: 'boolean' as const, value } : { ...named, value }
    return this.#untilReady(agent.request('session/set_config_option', requested))
  }

  /**
   * Gives up on the agent with this error. Craik first asks an agent that has a session to stop, because it may not
   * have saved its prompt yet. Codex creates a session's file only when it has read the first prompt. Gemini saves no
   * session that is cancelled before its first model call.
   */
  giveUp(error: CraikError): void {
    if (this.#isOpen) this.#hasGivenUp ??= error
    else this.#break(error)
    if (this.#hasGivenUp !== undefined && this.#turn !== undefined) this.#cancelWhenRead(this.#hasGivenUp)
  }

  /**
   * Closes the connection. An agent with a session gets a short time to save it and to exit by itself, because it sees
   * the end of its input.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    const { kill } = this.#options
    this.#isBroken = true
    kill.removeEventListener('abort', this.#killed)
    this.#turn?.over.abort()
    clearTimeout(this.#silence)
    this.#connection.close()
    // An agent that does not read would not read the end of its input either.
    void this.#input.close().catch(() => {})
    if (this.#isOpen && !this.#isStuck) {
      const deadline = sleep(this.#timeouts.exitMs, undefined, { ref: false, signal: kill }).catch(() => {})
      await Promise.race([this.#process.ended, deadline])
    }
    await this.#process.kill()
  }

  #onUpdate(update: SessionUpdate): void {
    const event = this.#updates.take(update)
    if (event !== undefined) this.#noteRead()
    this.#listen()
    if (event?.type === 'tool') this.#noteRunning(event.tool)
    this.#options.onUpdate(update, event)
  }

  #noteRunning({ id, status }: ToolState): void {
    if (status === 'running' || status === 'pending') this.#turn?.running.add(id)
    else this.#turn?.running.delete(id)
  }

  async #permit(tool: PendingTool, request: ToolCallUpdate): Promise<boolean> {
    const turn = this.#turn
    if (turn === undefined || turn.cancel.aborted || turn.over.signal.aborted) return false
    if (this.#hasGivenUp !== undefined) return false
    if (turn.asking >= MAX_PENDING_REQUESTS) return false
    turn.asking++
    clearTimeout(this.#silence)
    try {
      return await this.#options.permit(tool, request, turn.over.signal)
    } finally {
      turn.asking--
      this.#listen()
    }
  }

  /**
   * Restarts the timer for silent agents. A command can be silent for long, but a model that neither sends nor does
   * anything is lost.
   */
  #listen(): void {
    if (this.#turn === undefined || this.#turn.over.signal.aborted || this.#turn.cancel.aborted) return
    if (this.#hasGivenUp !== undefined) return
    clearTimeout(this.#silence)
    const timeoutMs = this.#timeouts.silentMs * (this.#turn.running.size > 0 ? 6 : 1)
    const what = `the agent sent nothing for ${Math.round(timeoutMs / 60_000)} min`
    this.#silence = setTimeout(() => this.#breakStuck(what), timeoutMs)
  }

  #timer(ms: number, what: string): NodeJS.Timeout {
    return setTimeout(() => this.#break(agentFailure(this.#options.harness, what, '')), ms)
  }

  #noteRead(): void {
    if (this.#turn === undefined || this.#turn.hasReadPrompt) return
    this.#turn.hasReadPrompt = true
    if (this.#hasGivenUp !== undefined && !this.#turn.cancel.aborted) this.#cancel(this.#hasGivenUp)
  }

  #cancelWhenRead(error: CraikError): void {
    if (this.#turn?.cancel.aborted) return
    clearTimeout(this.#silence)
    if (this.#turn?.hasReadPrompt) this.#cancel(error)
    else this.#silence = setTimeout(() => this.#cancel(error), this.#timeouts.readMs)
  }

  /** Asks the agent to stop and gives it a short time to confirm. If it does not, the turn throws the error. */
  #cancel(error: CraikError): void {
    const { agent } = this.#connection
    void agent.notify('session/cancel', { sessionId: this.#sessionId }).catch(() => {})
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => this.#break(error), this.#timeouts.cancelMs)
  }

  #breakStuck(what: string): void {
    this.#isStuck = true
    this.#break(agentFailure(this.#options.harness, what, ''))
  }

  #break(error: CraikError): void {
    this.#isBroken = true
    this.#broken.reject(error)
  }

  /**
   * Fails two seconds after the agent's output ended. If the agent exited, its exit status explains more and arrives
   * first.
   */
  #failSoon(): void {
    setTimeout(
      () => this.#break(agentFailure(this.#options.harness, 'the agent closed its output', '')),
      2_000,
    ).unref()
  }

  async #untilReady<T>(answer: Promise<T>): Promise<T> {
    const { readyMs } = this.#timeouts
    const deadline = this.#timer(readyMs, `the agent did not respond within ${readyMs / 1000} s`)
    try {
      return await this.#until(answer)
    } finally {
      clearTimeout(deadline)
    }
  }

  async #until<T>(answer: Promise<T>): Promise<T> {
    try {
      return await Promise.race([answer, this.#broken.promise])
    } catch (error) {
      if (error instanceof CraikError) throw error
      // The stream closed during the request. The agent's exit status explains more and arrives in a moment.
      if (!(error instanceof RequestError)) return this.#broken.promise
      throw agentFailure(this.#options.harness, error.message, detailOf(error), error.code)
    }
  }
}

export function cancelled(): CraikError {
  return new CraikError('interrupted', 'the prompt was cancelled')
}

function detailOf({ data }: RequestError): string {
  if (typeof data === 'string') return data
  const { details, message } = (data ?? {}) as { details?: unknown; message?: unknown }
  return [details, message].filter((each) => typeof each === 'string').join(' ')
}

/**
 * The library reports unexpected messages on standard error in the agent's own words. A terminal would execute escape
 * sequences in them.
 */
function silenceLibrary(): void {
  console.error = () => {}
}
