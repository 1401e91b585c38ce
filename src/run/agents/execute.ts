/**
 * The one path from a prompt to work, for `agent prompt`, `run execute`, the demo and library callers. It grants
 * nothing itself: policy decides every call and every command, with a grant that an operator created.
 */
import { hash } from 'node:crypto'
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { newId } from '../../lib/ids.ts'
import type { Isolation } from '../../sandboxes/backend.ts'
import type { Session } from './agent-session.ts'
import type { Handoff } from './handoff.ts'
import { type LoopEnd, type ProviderResult, type RunProgress, runLoop } from './loop.ts'
import { VERSION } from './record-fields.ts'
import { recordRefusalError } from './record-refusal.ts'
import type { RunDeps } from './run-deps.ts'
import type { Run } from './run-record.ts'
import { beginRun, finishRun } from './tokens.ts'

export const LOCAL_BACKEND_ID = 'sandbox_local_process'
export const DEFAULT_MAX_ITERATIONS = 5
const MAX_ITERATIONS = 50
export const DEFAULT_WALL_MS = 10 * 60_000
const MAX_WALL_MS = 24 * 3600_000
export const DEFAULT_COMMAND_MS = 30_000
const MAX_COMMAND_MS = 3600_000
export const MAX_PROMPT_BYTES = 256 * 1024

/** Allocated before the run begins, so that grants and receipts can name them. */
export interface RunIds {
  readonly runId: string
  readonly taskId: string
  readonly handoffId: string
}

export interface RunInput extends RunIds {
  readonly operator: string
  readonly prompt: string
  readonly providerId: string
  /** Default: the provider's default. */
  readonly modelId?: string | undefined
  readonly transport: 'live' | 'fixture'
  readonly policyEnvelopeId: string
  readonly sessionId?: string | undefined
  /** The folder in which commands start. */
  readonly workspace: string
  readonly isolation: Extract<Isolation, 'process' | 'none'>
  readonly maxIterations?: number | undefined
  /** The limit for input and output together. */
  readonly tokenBudget?: number | undefined
  readonly wallMs?: number | undefined
  /** The time limit of one command. */
  readonly commandMs?: number | undefined
  /**
   * Called after the run began and before its first decision, so that the operator can create grants. A refused run
   * does not call it and gets no grants.
   */
  readonly approve?: (() => Promise<unknown>) | undefined
  /** The attempt that this one continues. Commands that passed there are not repeated. */
  readonly resumes?: { readonly runId: string; readonly passed: ReadonlyMap<string, string> } | undefined
  readonly onProgress?: ((progress: RunProgress) => void) | undefined
}

export interface ExecutedRun {
  readonly run: Run
  readonly handoff: Handoff
  /** The session after the run. */
  readonly session?: Session
  /** The model's last text. It is not stored. */
  readonly text: string
  readonly providerResults: readonly ProviderResult[]
  /** Why a denied or failed run stopped, and the command to run next. */
  readonly stopped?: {
    readonly reason: string
    readonly hint: string
    readonly receiptId?: string | undefined
  }
}

export function newRunIds(clock: Clock, taskId?: string): RunIds {
  const nowMs = clock.nowMs()
  return {
    runId: newId('run', nowMs),
    taskId: taskId ?? newId('task', nowMs),
    handoffId: newId('handoff', nowMs),
  }
}

/** Returns the first 16 hex digits of the SHA-256: enough to recognize a prompt, and the only stored part of it. */
export function promptHash(prompt: string): string {
  return hash('sha256', prompt).slice(0, 16)
}

/** Runs a prompt to its end. Denials and failures are results. Throws only when the run cannot begin, and on faults. */
export async function executeRun(deps: RunDeps, input: RunInput): Promise<ExecutedRun> {
  const draft = draftRun(deps, input)
  const begun = await deps.store.write(beginRun, { run: draft })
  if (begun.outcome === 'refused') throw recordRefusalError(begun)

  const wall = new AbortController()
  const timer = setTimeout(() => wall.abort(), draft.wall_budget_ms)
  let end: LoopEnd
  try {
    await input.approve?.()
    end = await runLoop(deps, draft, input, wall.signal)
  } catch (error) {
    // If this write fails too, `recover` ends the run later. The first error is the one to report.
    await finish(deps, draft, afterError(deps, wall.signal, error)).catch(() => {})
    throw error
  } finally {
    clearTimeout(timer)
  }
  const { run, handoff, session } = await finish(deps, draft, end)
  return {
    run,
    handoff,
    text: end.text,
    providerResults: end.providerResults,
    ...(session && { session }),
    ...(end.stopped && { stopped: end.stopped }),
  }
}

type End = Pick<LoopEnd, 'status' | 'stopReason' | 'sessionStatus'>

/** A session becomes unusable only through an internal error. */
function afterError({ signal }: RunDeps, wall: AbortSignal, error: unknown): End {
  if (signal.aborted) return { status: 'interrupted', stopReason: 'cancelled', sessionStatus: 'idle' }
  if (wall.aborted) return { status: 'interrupted', stopReason: 'wall_budget', sessionStatus: 'idle' }
  const code = error instanceof CraikError ? error.code : 'internal'
  return {
    status: 'failed',
    stopReason: `error.${code}`,
    sessionStatus: code === 'internal' ? 'failed' : 'idle',
  }
}

function finish({ store, log }: RunDeps, run: Run, { status, stopReason, sessionStatus }: End) {
  return store.write(finishRun, { runId: run.id, owner: log.owner, status, stopReason, sessionStatus })
}

/** Checks everything about a prompt that does not depend on stored records. */
export function requireRunnable({
  prompt,
  maxIterations = DEFAULT_MAX_ITERATIONS,
  wallMs = DEFAULT_WALL_MS,
  commandMs = DEFAULT_COMMAND_MS,
  tokenBudget,
}: Pick<RunInput, 'prompt' | 'maxIterations' | 'wallMs' | 'commandMs' | 'tokenBudget'>): void {
  requireWhole('max-iterations', maxIterations, MAX_ITERATIONS)
  requireWhole('the wall time in milliseconds', wallMs, MAX_WALL_MS)
  requireWhole('the command time in milliseconds', commandMs, MAX_COMMAND_MS)
  if (tokenBudget !== undefined) requireWhole('token-budget', tokenBudget, Number.MAX_SAFE_INTEGER)
  requirePrompt(prompt)
}

function draftRun({ clock, log }: RunDeps, input: RunInput): Run {
  const { maxIterations = DEFAULT_MAX_ITERATIONS, wallMs = DEFAULT_WALL_MS, tokenBudget } = input
  requireRunnable(input)
  return {
    schema: 'craik.run',
    version: VERSION,
    id: input.runId,
    task_id: input.taskId,
    session_id: input.sessionId ?? null,
    resumed_from: input.resumes?.runId ?? null,
    operator_subject: input.operator,
    provider_id: input.providerId,
    model_id: input.modelId ?? null,
    policy_envelope_id: input.policyEnvelopeId,
    backend_id: LOCAL_BACKEND_ID,
    isolation: input.isolation,
    runner_mode: input.transport,
    status: 'running',
    phase: 'plan',
    iteration: 1,
    max_iterations: maxIterations,
    token_budget: tokenBudget ?? null,
    tokens_used: 0,
    wall_budget_ms: wallMs,
    provider_result_count: 0,
    commands: [],
    prompt_hash: promptHash(input.prompt),
    stop_reason: null,
    cancel_requested_by: null,
    owner: log.owner,
    receipt_ids: [],
    handoff_id: input.handoffId,
    created_at: new Date(clock.nowMs()).toISOString(),
    ended_at: null,
  }
}

function requirePrompt(prompt: string): void {
  if (prompt.trim() === '') {
    throw new CraikError('usage', 'the prompt is empty', { hint: 'write the task in quotes' })
  }
  const bytes = Buffer.byteLength(prompt)
  if (bytes <= MAX_PROMPT_BYTES) return
  throw new CraikError('too_large', `the prompt is too large: ${bytes.toLocaleString('en')} bytes`, {
    hint: `use at most ${MAX_PROMPT_BYTES.toLocaleString('en')} bytes`,
  })
}

function requireWhole(what: string, value: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= most) return
  throw new CraikError('usage', `${what} must be a whole number from 1 to ${most.toLocaleString('en')}`)
}
