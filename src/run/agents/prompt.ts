/** Prompting a session, executing a task, resuming a run: three ways into the one path, with the operator's approval. */
import { CraikError } from '../../errors.ts'
import { ensureFixtureAction, FIXTURE_ACTION } from '../../sandboxes/fixture-action.ts'
import {
  DEFAULT_MAX_ITERATIONS,
  DEFAULT_WALL_MS,
  type ExecutedRun,
  executeRun,
  newRunIds,
  promptHash,
  type RunIds,
  type RunInput,
} from './execute.ts'
import { approvePrompt } from './grants.ts'
import { type AgentProfile, prepareEnvelope, prepareRun, type Wanted } from './launch.ts'
import type { RunPlace } from './place.ts'
import { getHandoff, getRun, getSession } from './records.ts'
import { refusedError } from './refused.ts'
import type { Run } from './run-record.ts'
import { SESSION_CHANGES } from './session.ts'

/** What the operator says with a prompt, besides the prompt. */
export interface PromptOptions {
  readonly maxIterations?: number | undefined
  readonly tokenBudget?: number | undefined
  readonly wallMs?: number | undefined
  /** One use of the fixture's command. */
  readonly allowFixtureAction: boolean
  readonly onProgress?: RunInput['onProgress']
}

/** How long after the run's own time a grant for it may still be found. */
const GRANT_MARGIN_MS = 60_000
const MAX_ATTEMPTS = 20

export async function promptSession(
  place: RunPlace,
  operator: string,
  sessionId: string,
  prompt: string,
  options: PromptOptions,
): Promise<ExecutedRun> {
  const { record: session, status } = await getSession(place, sessionId)
  const ids = newRunIds(place.clock)
  // Nothing is approved for a session that will refuse the prompt; the refusal itself leaves a receipt.
  const isReady = status === 'verified' && SESSION_CHANGES[session.status].includes('running')
  if (session.operator_subject === operator && isReady) {
    await approve(place, operator, session.provider_id, session.transport, ids, options)
  }
  return executeRun(place, {
    ...ids,
    ...limitsOf(options),
    operator,
    prompt,
    sessionId,
    providerId: session.provider_id,
    modelId: session.model_id ?? undefined,
    transport: session.transport,
    policyEnvelopeId: session.policy_envelope_id,
    workspace: session.workspace,
    isolation: session.isolation === 'process' ? 'process' : 'none',
  })
}

export interface TaskOptions extends PromptOptions, Wanted {
  readonly envelopeId?: string | undefined
  readonly profile?: AgentProfile | undefined
}

/** A task without a session. */
export async function executeTask(
  place: RunPlace,
  prompt: string,
  options: TaskOptions,
): Promise<ExecutedRun> {
  const { operator } = options
  const ids = newRunIds(place.clock)
  const { availability: _, ...prepared } = await prepareRun(place, options)
  const policyEnvelopeId = await prepareEnvelope(place, operator, {
    envelopeId: options.envelopeId,
    profile: options.profile,
    own: { taskId: ids.taskId },
  })
  await approve(place, operator, prepared.providerId, prepared.transport, ids, options)
  return executeRun(place, { ...ids, ...prepared, ...limitsOf(options), operator, prompt, policyEnvelopeId })
}

/**
 * A new attempt at an interrupted run's task. The prompt is kept nowhere, so it is given again, and has to be the same.
 * What passed before is told to the model, and asked for again it is not run again.
 */
export async function resumeRun(
  place: RunPlace,
  operator: string,
  runId: string,
  prompt: string,
  options: PromptOptions & { readonly workspace?: string | undefined },
): Promise<ExecutedRun> {
  const { record: run, status } = await getRun(place, runId)
  if (run.operator_subject !== operator) throw await refuseResume(place, run, operator)
  requireResumable(run, status, prompt)
  const session = run.session_id === null ? undefined : (await getSession(place, run.session_id)).record
  const prepared = await prepareRun(place, {
    operator,
    providerId: run.provider_id,
    modelId: run.model_id ?? undefined,
    fixture: run.runner_mode === 'fixture',
    workspace: options.workspace ?? session?.workspace ?? '.',
    isolation: run.isolation === 'process' ? 'process' : 'none',
  })
  const { availability: _, ...input } = prepared
  const ids = newRunIds(place.clock, run.task_id)
  await approve(place, operator, run.provider_id, input.transport, ids, options)
  return executeRun(place, {
    ...ids,
    ...input,
    ...limitsOf({
      ...options,
      maxIterations: options.maxIterations ?? run.max_iterations,
      tokenBudget: options.tokenBudget ?? run.token_budget ?? undefined,
      wallMs: options.wallMs ?? run.wall_budget_ms,
    }),
    operator,
    prompt,
    policyEnvelopeId: run.policy_envelope_id,
    ...(run.session_id !== null && { sessionId: run.session_id }),
    resumes: { runId, passed: await passedBefore(place, run) },
  })
}

function requireResumable(run: Run, seal: string, prompt: string): void {
  if (seal !== 'verified') {
    throw new CraikError('tampered', `run ${run.id} was changed outside Craik: it is not continued`)
  }
  if (run.status === 'running' || run.status === 'pending') {
    throw new CraikError('usage', `run ${run.id} is ${run.status}`, {
      hint: `if its process was killed:  craik run recover ${run.id}`,
    })
  }
  if (run.status !== 'interrupted') {
    throw new CraikError('usage', `run ${run.id} is ${run.status}: only an interrupted run is resumed`)
  }
  if (promptHash(prompt) !== run.prompt_hash) {
    throw new CraikError('usage', `this is not the task that ${run.id} was given`, {
      hint: 'prompts are kept nowhere: give the same text again, or start anew:  craik run execute "<task>"',
    })
  }
}

async function refuseResume({ log }: RunPlace, run: Run, operator: string): Promise<CraikError> {
  const receipt = await log.append({
    kind: 'denial',
    status: 'denied',
    operator,
    capability: 'agent.run',
    operation: 'resume',
    target: run.id,
    links: { run_id: run.id, policy_envelope_id: run.policy_envelope_id },
    decision: { effect: 'deny', rule: 'run.operator', missing: [], replayable: false },
  })
  const reason = `run ${run.id} belongs to ${run.operator_subject}, not to ${operator}`
  return refusedError({ outcome: 'refused', rule: 'run.operator', reason, receipt })
}

/** From the handoffs, which have it from the receipts: also what passed right before a kill. */
async function passedBefore(place: RunPlace, last: Run): Promise<ReadonlyMap<string, string>> {
  const passed = new Map<string, string>()
  let run: Run | undefined = last
  for (let attempts = 0; run !== undefined && attempts < MAX_ATTEMPTS; attempts++) {
    const { record: handoff } = await getHandoff(place, run.handoff_id)
    for (const { command_ref, status, receipt_ids } of handoff.commands_run) {
      if (status === 'passed' && !passed.has(command_ref)) passed.set(command_ref, receipt_ids.at(-1)!)
    }
    run = run.resumed_from === null ? undefined : (await getRun(place, run.resumed_from)).record
  }
  return passed
}

async function approve(
  place: RunPlace,
  operator: string,
  providerId: string,
  transport: RunInput['transport'],
  { runId }: RunIds,
  { maxIterations = DEFAULT_MAX_ITERATIONS, wallMs = DEFAULT_WALL_MS, allowFixtureAction }: PromptOptions,
): Promise<void> {
  // The fixture asks for it whether it is granted or not; that there is such a command grants nothing.
  if (allowFixtureAction || transport === 'fixture') await ensureFixtureAction(place.store, operator)
  await approvePrompt(place, {
    operator,
    runId,
    providerId,
    maxIterations,
    lifetimeMs: wallMs + GRANT_MARGIN_MS,
    ...(allowFixtureAction && { commandRef: FIXTURE_ACTION.ref }),
  })
}

function limitsOf({ maxIterations, tokenBudget, wallMs, onProgress }: PromptOptions) {
  return { maxIterations, tokenBudget, wallMs, onProgress }
}
