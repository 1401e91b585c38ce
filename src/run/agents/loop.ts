/** The loop of a run: plan → act → observe → evaluate → continue | stop, each step durable before it is taken. */

import type { FailureKind } from '../../providers/adapters/adapter.ts'
import type { Message, ToolCall } from '../../providers/conversation.ts'
import { callModel } from '../../providers/dispatch.ts'
import type { ModelOutcome } from '../../providers/dispatch-types.ts'
import { MISSING_CAP_TOKENS } from '../../providers/ledger/judge.ts'
import { type Acted, act } from './act.ts'
import type { RunInput } from './execute.ts'
import { findGrantFor } from './grants.ts'
import type { RunPlace } from './place.ts'
import { commandsToOffer, RUN_COMMAND, systemText } from './prompt-text.ts'
import type { CommandRun, Phase, Run } from './run-record.ts'
import type { SessionStatus } from './session.ts'
import { advanceRun, type FinishRunInput } from './tokens.ts'

/** More calls in one answer than this are not looked at. */
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

/** What a person who watches sees. Text is as the model wrote it. */
export type RunProgress =
  | { readonly type: 'answer'; readonly text: string; readonly result: ProviderResult }
  | { readonly type: 'command'; readonly command: CommandRun; readonly durationMs: number }

export interface LoopEnd extends Pick<FinishRunInput, 'status' | 'stopReason' | 'sessionStatus'> {
  readonly text: string
  readonly providerResults: readonly ProviderResult[]
  readonly stopped?: { readonly reason: string; readonly hint: string; readonly receiptId?: string }
}

type Answered = Extract<ModelOutcome, { outcome: 'answered' }>
type Stop = Omit<LoopEnd, 'text' | 'providerResults'>

/** `wall` aborts when the run's time is over. */
export async function runLoop(
  place: RunPlace,
  run: Run,
  input: RunInput,
  wall: AbortSignal,
): Promise<LoopEnd> {
  const loop = new Loop(place, run, input, wall, await commandsToOffer(place.store))
  const stop = await loop.run()
  return { ...stop, text: loop.text, providerResults: loop.results }
}

class Loop {
  text = ''
  readonly results: ProviderResult[] = []
  readonly #place: RunPlace
  readonly #run: Run
  readonly #input: RunInput
  readonly #wall: AbortSignal
  readonly #signal: AbortSignal
  readonly #messages: Message[]
  #tokensUsed: number | null = 0
  #cancelled = false

  constructor(place: RunPlace, run: Run, input: RunInput, wall: AbortSignal, commandRefs: readonly string[]) {
    this.#place = place
    this.#run = run
    this.#input = input
    this.#wall = wall
    this.#signal = AbortSignal.any([place.signal, wall])
    this.#messages = [
      { role: 'system', text: systemText(commandRefs, input.resumes?.passed) },
      { role: 'user', text: input.prompt },
    ]
  }

  async run(): Promise<Stop> {
    // The phase that a run begins with, plan, is on disk already.
    for (let iteration = 1; ; iteration++) {
      const interrupted = this.#interruption()
      if (interrupted) return interrupted
      const answer = await this.#plan()
      if (answer.outcome !== 'answered') return this.#interruption() ?? this.#unanswered(answer)
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

  #plan(): Promise<ModelOutcome> {
    const { operator, providerId, modelId, transport, policyEnvelopeId, sessionId, taskId, runId } =
      this.#input
    const scope = {
      ...(sessionId !== undefined && { session_id: sessionId }),
      task_id: taskId,
      run_id: runId,
    }
    const { store, clock } = this.#place
    const left = this.#tokensLeft()
    return callModel(this.#place, {
      operator,
      providerId,
      ...(modelId !== undefined && { model: modelId }),
      transport,
      policyEnvelopeId,
      grantFor: (target) =>
        findGrantFor(
          store,
          {
            operator,
            capability: 'model.chat',
            operation: 'chat',
            target,
            scope,
            policy_envelope_id: policyEnvelopeId,
          },
          clock.nowMs(),
        ),
      scope,
      links: { handoff_id: this.#run.handoff_id, backend_id: this.#run.backend_id },
      messages: this.#messages,
      tools: [RUN_COMMAND],
      ...(left !== undefined && { maxOutputTokens: left }),
      signal: this.#signal,
    })
  }

  /**
   * What is left of the token budget, but no cap that a model would refuse. A call may still overrun it by its input,
   * and the next one does not begin.
   */
  #tokensLeft(): number | undefined {
    const { token_budget } = this.#run
    if (token_budget === null) return undefined
    return Math.min(MISSING_CAP_TOKENS, Math.max(1, token_budget - (this.#tokensUsed ?? 0)))
  }

  #note(answer: Answered): void {
    const { usage } = answer
    const counted = usage.source === 'absent' ? undefined : usage
    this.#tokensUsed =
      counted === undefined || this.#tokensUsed === null
        ? null
        : this.#tokensUsed + counted.inputTokens + counted.outputTokens
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

  /** Runs what the answer asks for, one after the other. Answers only when the run must not go on. */
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
      const acted = await act(this.#place, this.#run, this.#input, {
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
    if (acted.noPlace !== undefined) {
      const reason = `no sandbox could be made for ${acted.command.command_ref}: ${acted.noPlace}`
      const receiptId = acted.command.receipt_id
      const hint = `see what happened:  craik receipts show ${receiptId}`
      const stopped = { reason, hint, receiptId }
      return { status: 'failed', stopReason: 'sandbox_failed', sessionStatus: 'sandbox_failed', stopped }
    }
    this.#reply(call, acted.text, acted.failed)
    return this.#interruption()
  }

  #reply({ id, name }: ToolCall, text: string, failed: boolean): void {
    this.#messages.push({ role: 'tool', callId: id, name, text, failed })
  }

  /** Undefined: go on. */
  #evaluate(answer: Answered, iteration: number): Stop | undefined {
    const { stopReason } = answer
    const interrupted = this.#interruption()
    if (interrupted) return interrupted
    if (stopReason === 'refused') {
      return { status: 'failed', stopReason: 'model_refused', sessionStatus: 'idle' }
    }
    if (stopReason === 'max_tokens') return interruptedBy('max_tokens')
    if (!wantsMore(answer)) return { status: 'completed', stopReason: 'end', sessionStatus: 'idle' }
    if (iteration >= this.#run.max_iterations) return interruptedBy('max_iterations')
    const { token_budget } = this.#run
    if (token_budget === null) return undefined
    // A call that does not say what it used may have used anything.
    if (this.#tokensUsed === null) return interruptedBy('token_usage_unknown')
    return this.#tokensUsed >= token_budget ? interruptedBy('token_budget') : undefined
  }

  #interruption(): Stop | undefined {
    if (this.#place.signal.aborted || this.#cancelled) return interruptedBy('cancelled')
    return this.#wall.aborted ? interruptedBy('wall_budget') : undefined
  }

  #unanswered(outcome: Exclude<ModelOutcome, { outcome: 'answered' }>): Stop {
    const { receiptId, reason } = outcome
    if (outcome.outcome === 'denied') {
      const { rule, hint } = outcome
      return {
        status: 'blocked',
        stopReason: rule,
        sessionStatus: 'idle',
        stopped: { reason, hint, receiptId },
      }
    }
    return {
      status: 'failed',
      stopReason: `provider.${outcome.failure}`,
      sessionStatus: SESSION_AFTER[outcome.failure],
      stopped: { reason, hint: outcome.hint, receiptId },
    }
  }

  async #advance(
    phase: Phase,
    more: { readonly iteration?: number; readonly command?: CommandRun } = {},
  ): Promise<void> {
    const { cancelRequestedBy } = await this.#place.store.write(advanceRun, {
      runId: this.#run.id,
      owner: this.#place.log.owner,
      phase,
      tokensUsed: this.#tokensUsed,
      providerResultCount: this.results.length,
      ...more,
    })
    this.#cancelled ||= cancelRequestedBy !== null
  }
}

/** Some servers say that they ended while they ask for something: what they ask for counts. */
function wantsMore({ toolCalls, stopReason }: Answered): boolean {
  return toolCalls.length > 0 && (stopReason === 'tool_calls' || stopReason === 'end')
}

function interruptedBy(stopReason: string): Stop {
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

/** A call that is not one of ours, or not spelled as it should be, is answered and runs nothing. */
function commandOf({ name, arguments: given }: ToolCall): { commandRef: string } | { refusal: string } {
  if (name !== RUN_COMMAND.name)
    return { refusal: `there is no tool of that name; there is ${RUN_COMMAND.name}` }
  const { command_ref, ...rest } = given
  if (typeof command_ref !== 'string' || command_ref === '' || Object.keys(rest).length > 0) {
    return { refusal: 'it takes {"command_ref": "<the reference of a registered command>"} and nothing else' }
  }
  return { commandRef: command_ref }
}
