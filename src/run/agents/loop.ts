/** The loop of a run: plan → act → observe → evaluate → continue | stop. Each step is durable before it runs. */

import type { FailureKind } from '../../providers/adapters/adapter.ts'
import type { Message, ToolCall } from '../../providers/conversation.ts'
import { callModel } from '../../providers/dispatch.ts'
import type { ModelOutcome } from '../../providers/dispatch-types.ts'
import { MISSING_CAP_TOKENS } from '../../providers/ledger/evaluate-reservation.ts'
import { SESSION_CHANGES, type SessionStatus } from './agent-session.ts'
import type { RunInput } from './execute.ts'
import type { RunDeps } from './run-deps.ts'
import { findGrantFor } from './run-grants.ts'
import type { CommandRun, Phase, Run } from './run-record.ts'
import { type Acted, runToolCall } from './run-tool-call.ts'
import { commandsToOffer, formatSystemPrompt, RUN_COMMAND } from './system-prompt.ts'
import { estimateInputTokens, tokensBooked } from './token-budget.ts'
import { advanceRun, type FinishRunInput } from './tokens.ts'

/** The most calls of one answer that run. */
const MAX_CALLS_PER_TURN = 16

export interface ProviderResult {
  readonly provider_id: string
  readonly model: string
  readonly stop_reason: string
  readonly tool_calls: number
  readonly usage: { readonly source: string; readonly input_tokens?: number; readonly output_tokens?: number }
  readonly cost_nano_usd: number | null
  readonly receipt_id: string
}

/** Progress for display. The text is exactly the model's. */
export type RunProgress =
  | { readonly type: 'answer'; readonly text: string; readonly result: ProviderResult }
  | { readonly type: 'command'; readonly command: CommandRun; readonly durationMs: number }

export interface LoopEnd extends Pick<FinishRunInput, 'status' | 'stopReason' | 'sessionStatus'> {
  readonly text: string
  readonly providerResults: readonly ProviderResult[]
  readonly stopped?: {
    readonly reason: string
    readonly hint: string
    readonly receiptId?: string | undefined
  }
}

type Answered = Extract<ModelOutcome, { outcome: 'answered' }>
type Stop = Omit<LoopEnd, 'text' | 'providerResults'>

/** Runs the loop. `wall` aborts when the run's time is over. */
export async function runLoop(deps: RunDeps, run: Run, input: RunInput, wall: AbortSignal): Promise<LoopEnd> {
  const loop = new Loop(deps, run, input, wall, await commandsToOffer(deps.store))
  const stop = await loop.run().catch((error: unknown) => loop.stopOf(error))
  return { ...stop, text: loop.text, providerResults: loop.results }
}

class Loop {
  text = ''
  readonly results: ProviderResult[] = []
  tokensUsed: number | null = 0
  readonly #deps: RunDeps
  readonly #run: Run
  readonly #input: RunInput
  readonly #wall: AbortSignal
  readonly #signal: AbortSignal
  readonly #messages: Message[]
  #cancelled = false
  /** The last provider that was requested without a grant. */
  #ungranted: string | undefined

  constructor(deps: RunDeps, run: Run, input: RunInput, wall: AbortSignal, commandRefs: readonly string[]) {
    this.#deps = deps
    this.#run = run
    this.#input = input
    this.#wall = wall
    this.#signal = AbortSignal.any([deps.signal, wall])
    this.#messages = [
      { role: 'system', text: formatSystemPrompt(commandRefs, input.resumes?.passed) },
      { role: 'user', text: input.prompt },
    ]
  }

  /** Returns the stop for an error that an interruption caused. Throws other errors again. */
  stopOf(error: unknown): Stop {
    const stop = this.#interruption()
    if (stop !== undefined && isInterruption(error, this.#signal)) return stop
    throw error
  }

  async run(): Promise<Stop> {
    // The first phase of a run, plan, is already stored.
    for (let iteration = 1; ; iteration++) {
      const interrupted = this.#interruption()
      if (interrupted) return interrupted
      const available = this.#remainingTokens()
      if (typeof available === 'object') return available
      const answer = await this.#plan(available)
      await this.#count(answer)
      if (answer.outcome !== 'answered') return this.#interruption() ?? this.#stopUnanswered(answer)
      this.#note(answer)
      if (wantsMore(answer)) {
        const stopped = await this.#act(answer)
        if (stopped) return stopped
      }
      await this.#advance('evaluate')
      const stop = this.#evaluate(answer, iteration)
      if (stop) return stop
      await this.#advance('continue')
      await this.#advance('plan', { iteration: iteration + 1 })
    }
  }

  #plan(maxOutputTokens: number | undefined): Promise<ModelOutcome> {
    const { operator, providerId, modelId, transport, policyEnvelopeId, sessionId, taskId, runId } =
      this.#input
    const scope = {
      ...(sessionId !== undefined && { session_id: sessionId }),
      task_id: taskId,
      run_id: runId,
    }
    const { store, clock } = this.#deps
    return callModel(this.#deps, {
      operator,
      providerId,
      ...(modelId !== undefined && { model: modelId }),
      transport,
      policyEnvelopeId,
      grantFor: async (target) => {
        const request = { operator, capability: 'model.chat', operation: 'chat', target, scope }
        const found = await findGrantFor(
          store,
          { ...request, policy_envelope_id: policyEnvelopeId },
          clock.nowMs(),
        )
        this.#ungranted = found === undefined ? target : undefined
        return found
      },
      scope,
      links: { handoff_id: this.#run.handoff_id, backend_id: this.#run.backend_id },
      sandboxId: this.#run.backend_id,
      messages: this.#messages,
      tools: [RUN_COMMAND],
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      signal: this.#signal,
    })
  }

  /**
   * Returns the longest answer that the token budget allows. A call does not begin if its input alone would use up the
   * budget.
   */
  #remainingTokens(): number | undefined | Stop {
    const { id, token_budget } = this.#run
    if (token_budget === null) return undefined
    const left = token_budget - (this.tokensUsed ?? 0)
    const needed = estimateInputTokens(this.#messages, [RUN_COMMAND])
    // Never returns a limit that a model would refuse.
    if (left > needed) return Math.min(MISSING_CAP_TOKENS, left - needed)
    const reason = `the next call sends about ${needed} tokens, but only ${Math.max(0, left)} of ${token_budget} are left`
    const hint = `raise the budget:  craik run resume ${id} "<the same task>" --token-budget ${roomier(token_budget, needed)}`
    return { ...interruptRun('token_budget'), stopped: { reason, hint } }
  }

  async #count({ receiptIds }: ModelOutcome): Promise<void> {
    const booked = await tokensBooked(this.#deps.store, receiptIds)
    this.tokensUsed = booked === null || this.tokensUsed === null ? null : this.tokensUsed + booked
  }

  #note(answer: Answered): void {
    const { usage } = answer
    const counted = usage.source === 'absent' ? undefined : usage
    const result: ProviderResult = {
      provider_id: answer.providerId,
      model: answer.model,
      stop_reason: answer.stopReason,
      tool_calls: answer.toolCalls.length,
      usage: {
        source: usage.source,
        ...(counted && { input_tokens: counted.inputTokens, output_tokens: counted.outputTokens }),
      },
      cost_nano_usd: answer.costNanoUsd,
      receipt_id: answer.receiptId,
    }
    this.results.push(result)
    this.text = answer.text
    this.#messages.push({ role: 'assistant', text: answer.text, toolCalls: answer.toolCalls })
    this.#input.onProgress?.({ type: 'answer', text: answer.text, result })
  }

  /** Runs the requested commands one after the other. Returns a stop if the run must end. */
  async #act(answer: Answered): Promise<Stop | undefined> {
    for (const [i, call] of answer.toolCalls.entries()) {
      const wanted = i < MAX_CALLS_PER_TURN ? commandOf(call) : { refusal: 'too many calls in one answer' }
      if ('refusal' in wanted) {
        this.#reply(call, wanted.refusal, true)
        continue
      }
      const before = this.#input.resumes?.passed.get(wanted.commandRef)
      if (before !== undefined) {
        this.#reply(
          call,
          `it passed in the attempt before this one (receipt ${before}) and is not run again`,
          false,
        )
        continue
      }
      await this.#advance('act')
      const interrupted = this.#interruption()
      if (interrupted) return interrupted
      const acted = await runToolCall(this.#deps, this.#run, this.#input, {
        commandRef: wanted.commandRef,
        receiptId: answer.receiptId,
        signal: this.#signal,
      })
      const stopped = await this.#observe(call, acted)
      if (stopped) return stopped
    }
    return undefined
  }

  async #observe(call: ToolCall, acted: Acted): Promise<Stop | undefined> {
    await this.#advance('observe', { command: acted.command })
    this.#input.onProgress?.({ type: 'command', command: acted.command, durationMs: acted.durationMs })
    if (acted.denied) {
      return {
        status: 'blocked',
        stopReason: acted.denied.rule,
        sessionStatus: 'idle',
        stopped: acted.denied,
      }
    }
    if (acted.noSandbox !== undefined) {
      const reason = `cannot create a sandbox for ${acted.command.command_ref}: ${acted.noSandbox}`
      const receiptId = acted.command.receipt_id
      const hint = `show the receipt:  craik receipts show ${receiptId}`
      const stopped = { reason, hint, receiptId }
      return { status: 'failed', stopReason: 'sandbox_failed', sessionStatus: 'sandbox_failed', stopped }
    }
    this.#reply(call, acted.text, acted.failed)
    return this.#interruption()
  }

  #reply({ id, name }: ToolCall, text: string, failed: boolean): void {
    this.#messages.push({ role: 'tool', callId: id, name, text, failed })
  }

  /** Returns `undefined` when the run continues. */
  #evaluate(answer: Answered, iteration: number): Stop | undefined {
    const { stopReason } = answer
    const interrupted = this.#interruption()
    if (interrupted) return interrupted
    if (stopReason === 'refused') {
      return { status: 'failed', stopReason: 'model_refused', sessionStatus: 'idle' }
    }
    if (stopReason === 'max_tokens') return interruptRun('max_tokens')
    if (!wantsMore(answer)) return { status: 'completed', stopReason: 'end', sessionStatus: 'idle' }
    if (iteration >= this.#run.max_iterations) return interruptRun('max_iterations')
    const { token_budget } = this.#run
    if (token_budget === null) return undefined
    // A call that does not report its usage can have used any amount.
    if (this.tokensUsed === null) return interruptRun('token_usage_unknown')
    return this.tokensUsed >= token_budget ? interruptRun('token_budget') : undefined
  }

  #interruption(): Stop | undefined {
    if (this.#deps.signal.aborted || this.#cancelled) return interruptRun('cancelled')
    return this.#wall.aborted ? interruptRun('wall_budget') : undefined
  }

  #stopUnanswered(outcome: Exclude<ModelOutcome, { outcome: 'answered' }>): Stop {
    const { receiptId, reason } = outcome
    const hint = this.#hintOf(outcome)
    if (outcome.outcome === 'denied') {
      const { rule } = outcome
      return {
        status: 'blocked',
        stopReason: rule,
        sessionStatus: 'idle',
        stopped: { reason, hint, receiptId },
      }
    }
    const sessionStatus = SESSION_AFTER[outcome.failure]
    const { session_id } = this.#run
    // A session that needs more than the next prompt gets a hint to restart it.
    const restart =
      session_id === null || SESSION_CHANGES[sessionStatus].includes('running') || sessionStatus === 'idle'
        ? ''
        : `; then:  craik agent restart ${session_id}`
    return {
      status: 'failed',
      stopReason: `provider.${outcome.failure}`,
      sessionStatus,
      stopped: { reason, hint: `${hint}${restart}`, receiptId },
    }
  }

  /** A task ends with its run, so the next prompt needs a grant for the session, with one use per turn. */
  #hintOf({ hint }: { readonly hint: string }): string {
    if (this.#ungranted === undefined || !hint.startsWith('grant it once:')) return hint
    const { session_id, max_iterations } = this.#run
    const scope = session_id === null ? '--any-scope' : `--session-id ${session_id}`
    const request = `--capability model.chat --operation chat --target ${this.#ungranted} ${scope}`
    return `grant it:  craik grant create ${request} --uses ${max_iterations}`
  }

  async #advance(
    phase: Phase,
    more: { readonly iteration?: number; readonly command?: CommandRun } = {},
  ): Promise<void> {
    const { cancelRequestedBy } = await this.#deps.store.write(advanceRun, {
      runId: this.#run.id,
      owner: this.#deps.log.owner,
      phase,
      tokensUsed: this.tokensUsed,
      providerResultCount: this.results.length,
      ...more,
    })
    this.#cancelled ||= cancelRequestedBy !== null
  }
}

/** Returns whether the error is the signal's reason or was derived from it by a listener. */
function isInterruption(error: unknown, signal: AbortSignal): boolean {
  if (error === signal.reason) return true
  return (
    error instanceof Error &&
    (error.name === 'AbortError' || ('code' in error && error.code === 'interrupted'))
  )
}

/** Some servers report an end together with tool calls. The tool calls count. */
function wantsMore({ toolCalls, stopReason }: Answered): boolean {
  return toolCalls.length > 0 && (stopReason === 'tool_calls' || stopReason === 'end')
}

/** Returns a round number that leaves space for some answers. */
function roomier(budget: number, needed: number): number {
  return Math.ceil((budget + 10 * needed) / 1000) * 1000
}

function interruptRun(stopReason: string): Stop {
  return { status: 'interrupted', stopReason, sessionStatus: 'idle' }
}

const SESSION_AFTER: Readonly<Record<FailureKind, SessionStatus>> = {
  unreachable: 'provider_unavailable',
  timeout: 'provider_unavailable',
  rate_limited: 'provider_unavailable',
  overloaded: 'provider_unavailable',
  server_error: 'provider_unavailable',
  broken_stream: 'provider_unavailable',
  garbage: 'provider_unavailable',
  unauthorized: 'auth_expired',
  rejected: 'failed',
  cancelled: 'idle',
}

/** Returns the command of a tool call. An unknown tool or malformed arguments get an answer and run nothing. */
function commandOf({ name, arguments: provided }: ToolCall): { commandRef: string } | { refusal: string } {
  if (name !== RUN_COMMAND.name)
    return { refusal: `there is no tool of that name; there is ${RUN_COMMAND.name}` }
  const { command_ref, ...rest } = provided
  if (typeof command_ref !== 'string' || command_ref === '' || Object.keys(rest).length > 0) {
    return { refusal: 'it takes {"command_ref": "<the reference of a registered command>"} and nothing else' }
  }
  return { commandRef: command_ref }
}
