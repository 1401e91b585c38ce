/**
 * The one path on which a prompt becomes work, for `agent prompt`, `run execute`, the demo and library callers alike.
 * It has no power of its own: every call and every command is decided by policy with a grant that somebody made.
 */
import { hash } from 'node:crypto'
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { newId } from '../../lib/ids.ts'
import type { Isolation } from '../../sandboxes/backend.ts'
import { VERSION } from './fields.ts'
import type { Handoff } from './handoff.ts'
import { type LoopEnd, type ProviderResult, type RunProgress, runLoop } from './loop.ts'
import { refusedError } from './refused.ts'
import type { RunDeps } from './run-deps.ts'
import type { Run } from './run-record.ts'
import type { Session } from './session.ts'
import { beginRun, finishRun } from './tokens.ts'

export const LOCAL_BACKEND_ID = 'sandbox_local_process'
export const DEFAULT_MAX_ITERATIONS = 5
const MAX_ITERATIONS = 50
export const DEFAULT_WALL_MS = 10 * 60_000
const MAX_WALL_MS = 24 * 3600_000
export const DEFAULT_COMMAND_MS = 30_000
const MAX_COMMAND_MS = 3600_000
export const MAX_PROMPT_BYTES = 256 * 1024

/** Allotted before the run begins, so that grants and receipts can name them. */
export interface RunIds {
  readonly runId: string
  readonly taskId: string
  readonly handoffId: string
}

export interface RunInput extends RunIds {
  readonly operator: string
  readonly prompt: string
  readonly providerId: string
  /** The provider's default unless given. */
  readonly modelId?: string | undefined
  readonly transport: 'live' | 'fixture'
  readonly policyEnvelopeId: string
  readonly sessionId?: string | undefined
  /** The folder that commands start in. */
  readonly workspace: string
  readonly isolation: Extract<Isolation, 'process' | 'none'>
  readonly maxIterations?: number | undefined
  /** Of input and output together. */
  readonly tokenBudget?: number | undefined
  readonly wallMs?: number | undefined
  /** How long one command may take. */
  readonly commandMs?: number | undefined
  /**
   * Called when the run has begun, before anything in it is decided: the operator's moment to grant it something. A run
   * that is refused never gets there, so nothing is granted for it.
   */
  readonly approve?: (() => Promise<unknown>) | undefined
  /** The attempt that this one continues: what passed there is not run again. */
  readonly resumes?: { readonly runId: string; readonly passed: ReadonlyMap<string, string> } | undefined
  readonly onProgress?: ((progress: RunProgress) => void) | undefined
}

export interface ExecutedRun {
  readonly run: Run
  readonly handoff: Handoff
  /** As the run left it. */
  readonly session?: Session
  /** What the model said last; kept nowhere. */
  readonly text: string
  readonly providerResults: readonly ProviderResult[]
  /** Why it did not go on, and what to type, when it was denied or failed. */
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

/** The first 16 hex digits of its SHA-256: enough to recognise a prompt, and all that is kept of it. */
export function promptHash(prompt: string): string {
  return hash('sha256', prompt).slice(0, 16)
}

/** Runs a prompt to its end. Denials and failures are results; only a refusal to begin, and faults, are thrown. */
export async function executeRun(place: RunDeps, input: RunInput): Promise<ExecutedRun> {
  const draft = draftRun(place, input)
  const begun = await place.store.write(beginRun, { run: draft })
  if (begun.outcome === 'refused') throw refusedError(begun)

  const wall = new AbortController()
  const timer = setTimeout(() => wall.abort(), draft.wall_budget_ms)
  let end: LoopEnd
  try {
    await input.approve?.()
    end = await runLoop(place, draft, input, wall.signal)
  } catch (error) {
    // What cannot be written down now either is left to `recover`; the first error is the one to know.
    await finish(place, draft, afterError(place, wall.signal, error)).catch(() => {})
    throw error
  } finally {
    clearTimeout(timer)
  }
  const { run, handoff, session } = await finish(place, draft, end)
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

/** A session is only unfit for more when the fault is our own. */
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

/** What can be refused of a prompt by looking at it alone. */
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
