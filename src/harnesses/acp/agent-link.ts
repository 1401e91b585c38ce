/**
 * A line to an agent over the Agent Client Protocol: a session is begun or taken up again, and asked turn after turn. Nothing here
 * waits for ever, and nothing that the agent says is taken for more than words: it may tell and ask leave, and has no other method.
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
import type { SessionTerms } from '../harness.ts'
import { type AgentEvent, type PendingTool, type ToolState, Updates } from './agent-events.ts'
import { agentFailure } from './agent-failure.ts'
import type { AgentProcess } from './agent-process.ts'
import { limitInput } from './bounded-input.ts'

export interface AgentLinkOptions {
  /** What it is called in errors. */
  readonly harness: string
  /** Where it works, inside. */
  readonly cwd: string
  readonly terms?: SessionTerms | undefined
  /** What it tells, as it comes, and in our own form; also what it tells again of a session that is taken up. */
  readonly onUpdate: (update: SessionUpdate, event: AgentEvent | undefined) => void
  /** Whether it may do what it asks leave for. Asked only during a turn. */
  readonly permit: (tool: PendingTool, request: ToolCallUpdate, until: AbortSignal) => Promise<boolean>
  /** Aborts: nothing is waited for any more. */
  readonly kill: AbortSignal
  readonly timeouts?: Partial<AgentTimeouts> | undefined
}

export interface AgentTimeouts {
  /** From its start until it has a session. */
  readonly readyMs: number
  /** Between two signs of life while it does nothing that takes long. */
  readonly silentMs: number
  /** Until one that is given up is asked to stop, when nothing was heard of its turn: it may not have read the prompt yet. */
  readonly readMs: number
  /** Until it says that it has stopped, once it was asked to. */
  readonly cancelMs: number
  /** Until it has exited by itself, once its input has ended. */
  readonly exitMs: number
}

export interface LinkSession {
  readonly sessionId: string
  /** What a prompt may have besides text and links. */
  readonly takes: PromptCapabilities
  readonly state: Pick<LoadSessionResponse, 'modes' | 'configOptions'>
}

/**
 * On an idle machine agents stop within a second and exit within two. A busy machine needs ten times as long, and an agent that is
 * killed before loses what it has not written yet. Only an agent that hangs makes anybody wait, and a second Ctrl-C kills it.
 */
const PATIENCE: AgentTimeouts = {
  readyMs: 90_000,
  silentMs: 10 * 60_000,
  readMs: 5_000,
  cancelMs: 10_000,
  exitMs: 20_000,
}
/** How long an agent may take to stop and to exit. */
export const AGENT_STOP_MS = PATIENCE.readMs + PATIENCE.cancelMs + PATIENCE.exitMs
/** Of one message: agents send whole files in theirs. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024
/** More than the largest prompt. */
const MAX_UNREAD_BYTES = 128 * 1024 * 1024
const MAX_SESSION_ID = 200
/** Questions that wait for their answer: one that asks more is refused. */
const MAX_ASKING = 64

interface Turn {
  readonly cancel: AbortSignal
  readonly over: AbortController
  /** Tools that were begun and not ended. */
  readonly running: Set<string>
  asking: number
  /** It said or did something, so it has read the prompt. Lists of its commands come late, and say nothing of that. */
  isHeard: boolean
}

export class AgentLink {
  readonly #process: AgentProcess
  readonly #options: AgentLinkOptions
  readonly #timeouts: AgentTimeouts
  /** Of this turn: it keeps what is told of each tool. */
  #updates = new Updates()
  readonly #input: WritableStream<Uint8Array>
  readonly #connection
  readonly #broken = Promise.withResolvers<never>()
  #isBroken = false
  /** It neither reads nor says anything: waiting for it is of no use. */
  #isStuck = false
  /** It has a session, which it may have to write down. */
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
    this.#timeouts = { ...PATIENCE, ...options.timeouts }
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
      this.#breakStuck('it does not read its input'),
    )
    this.#connection = app.connect(
      ndJsonStream(this.#input, process.output, { maxMessageBytes: MAX_MESSAGE_BYTES }),
    )
    void process.ended.then(({ how, complaint }) =>
      this.#break(agentFailure(options.harness, `it ${how}`, complaint)),
    )
    void this.#connection.closed.then(() => this.#failSoon())
    options.kill.addEventListener('abort', this.#killed, { once: true })
    if (options.kill.aborted) this.#break(cancelled())
  }

  /** It will not answer any more: another one has to take up its session. */
  get isBroken(): boolean {
    return this.#isBroken || this.#hasGivenUp !== undefined
  }

  /** Once, before everything else: a new session, or the one of that name. */
  async open(sessionId?: string): Promise<LinkSession> {
    const { agent } = this.#connection
    const { harness, cwd, terms = {} } = this.#options
    const { readyMs } = this.#timeouts
    const ready = this.#timer(readyMs, `it was not ready within ${readyMs / 1000} s`)
    try {
      const { protocolVersion, agentCapabilities } = await this.#until(
        agent.request('initialize', {
          protocolVersion: 1,
          clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
          clientInfo: { name: 'craik', version: '1' },
        }),
      )
      if (protocolVersion !== 1)
        throw agentFailure(harness, `it uses protocol version ${protocolVersion}, expected 1`, '')
      const takes = agentCapabilities?.promptCapabilities ?? {}
      const requested = { cwd, mcpServers: [], ...(terms.meta && { _meta: terms.meta }) }
      const state = await this.#begin(requested, sessionId)
      const inMode = await this.#inMode(state, terms.modeId)
      this.#isOpen = true
      return { sessionId: this.#sessionId, takes, state: inMode }
    } finally {
      clearTimeout(ready)
    }
  }

  async #begin(request: NewSessionRequest, sessionId: string | undefined): Promise<LinkSession['state']> {
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

  async #inMode(state: LinkSession['state'], modeId: string | undefined): Promise<LinkSession['state']> {
    const { modes } = state
    if (modeId === undefined || modes?.currentModeId === modeId) return state
    const { agent } = this.#connection
    await this.#until(agent.request('session/set_mode', { sessionId: this.#sessionId, modeId }))
    return { ...state, ...(modes && { modes: { ...modes, currentModeId: modeId } }) }
  }

  /**
   * One at a time. `cancel` asks the agent to stop, and it has a while to say that it did. It gets the prompt in any case: the session is
   * on record by now, and some agents write none down that nothing was said in.
   */
  async turn(prompt: ContentBlock[], cancel: AbortSignal): Promise<StopReason> {
    this.#updates = new Updates()
    this.#turn = { cancel, over: new AbortController(), running: new Set(), asking: 0, isHeard: false }
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

  async setConfigOption(configId: string, value: string | boolean): Promise<LinkSession['state']> {
    const { agent } = this.#connection
    const named = { sessionId: this.#sessionId, configId }
    const requested =
      typeof value === 'boolean' ? { ...named, type: 'boolean' as const, value } : { ...named, value }
    return this.#untilReady(agent.request('session/set_config_option', requested))
  }

  /**
   * Nothing is to be expected of it, for this reason. One that has a session is asked to stop: it may not have written down yet what it
   * was asked. Codex makes the file of a session only when it has read the first prompt, and Gemini writes down none that is cancelled
   * before it asked its model.
   */
  giveUp(error: CraikError): void {
    if (this.#isOpen) this.#hasGivenUp ??= error
    else this.#break(error)
    if (this.#hasGivenUp !== undefined && this.#turn !== undefined) this.#cancelWhenRead(this.#hasGivenUp)
  }

  /** One that has a session has a while to write it down and to exit by itself: it sees that nobody listens any more. */
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
    // One that does not read would not take the end either.
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
    if (turn.asking >= MAX_ASKING) return false
    turn.asking++
    clearTimeout(this.#silence)
    try {
      return await this.#options.permit(tool, request, turn.over.signal)
    } finally {
      turn.asking--
      this.#listen()
    }
  }

  /** A command may be silent for long; a model that says nothing, and does nothing, has been lost. */
  #listen(): void {
    if (this.#turn === undefined || this.#turn.over.signal.aborted || this.#turn.cancel.aborted) return
    if (this.#hasGivenUp !== undefined) return
    clearTimeout(this.#silence)
    const timeoutMs = this.#timeouts.silentMs * (this.#turn.running.size > 0 ? 6 : 1)
    const what = `it sent nothing for ${Math.round(timeoutMs / 60_000)} min`
    this.#silence = setTimeout(() => this.#breakStuck(what), timeoutMs)
  }

  #timer(ms: number, what: string): NodeJS.Timeout {
    return setTimeout(() => this.#break(agentFailure(this.#options.harness, what, '')), ms)
  }

  #noteRead(): void {
    if (this.#turn === undefined || this.#turn.isHeard) return
    this.#turn.isHeard = true
    if (this.#hasGivenUp !== undefined && !this.#turn.cancel.aborted) this.#cancel(this.#hasGivenUp)
  }

  #cancelWhenRead(error: CraikError): void {
    if (this.#turn?.cancel.aborted) return
    clearTimeout(this.#silence)
    if (this.#turn?.isHeard) this.#cancel(error)
    else this.#silence = setTimeout(() => this.#cancel(error), this.#timeouts.readMs)
  }

  /** It has a while to say that it stopped; the error is what is thrown when it does not. */
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

  /** Its output ended: if that was its end, how it ended says more. */
  #failSoon(): void {
    setTimeout(
      () => this.#break(agentFailure(this.#options.harness, 'it closed its output', '')),
      2_000,
    ).unref()
  }

  async #untilReady<T>(answer: Promise<T>): Promise<T> {
    const { readyMs } = this.#timeouts
    const deadline = this.#timer(readyMs, `it did not respond within ${readyMs / 1000} s`)
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
      // The stream closed under it: how the agent ended says more, and comes in a moment.
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

/** The library tells of odd messages on standard error, in the agent's own words: a terminal would obey what is in them. */
function silenceLibrary(): void {
  console.error = () => {}
}
