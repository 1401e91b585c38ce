/** Prompts a session, executes a task or resumes a run: three entries to one path, with the operator's approval. */
import { CraikError } from '../../errors.ts'
import { ensureFixtureAction, FIXTURE_ACTION } from '../../sandboxes/fixture-action.ts'
import { requireResolved } from '../../sandboxes/workspace-path.ts'
import {
  DEFAULT_MAX_ITERATIONS,
  DEFAULT_WALL_MS,
  type ExecutedRun,
  executeRun,
  newRunIds,
  promptHash,
  type RunIds,
  type RunInput,
  requireRunnable,
} from './execute.ts'
import type { Handoff } from './handoff.ts'
import { type AgentProfile, prepareEnvelope, prepareRun, type Wanted } from './launch-agent.ts'
import { requireOwn } from './ownership.ts'
import { type Checked, getHandoff, getRun, getSession } from './read-agent-records.ts'
import type { RunDeps } from './run-deps.ts'
import { approvePrompt } from './run-grants.ts'
import type { Run } from './run-record.ts'

/** The operator's options of a prompt. */
export interface PromptOptions {
  readonly maxIterations?: number | undefined
  readonly tokenBudget?: number | undefined
  readonly wallMs?: number | undefined
  readonly commandMs?: number | undefined
  /** Allows one use of the fixture's command. */
  readonly allowFixtureAction: boolean
  readonly onProgress?: RunInput['onProgress']
}

/** How long a grant for the run stays valid after the run's own time. */
const GRANT_MARGIN_MS = 60_000
const MAX_ATTEMPTS = 20

export async function promptSession(
  deps: RunDeps,
  operator: string,
  sessionId: string,
  prompt: string,
  options: PromptOptions,
): Promise<ExecutedRun> {
  const { record: session } = await getSession(deps, sessionId)
  const ids = newRunIds(deps.clock)
  return executeRun(deps, {
    ...ids,
    ...limitsOf(options),
    approve: () => approve(deps, operator, session.provider_id, session.transport, ids, options),
    operator,
    prompt,
    sessionId,
    providerId: session.provider_id,
    modelId: session.model_id ?? undefined,
    transport: session.transport,
    policyEnvelopeId: session.policy_envelope_id,
    workspace: session.workspace,
    isolation: isolationOf(session),
  })
}

export interface TaskOptions extends PromptOptions, Wanted {
  readonly envelopeId?: string | undefined
  readonly profile?: AgentProfile | undefined
}

/** Executes a task without a session. */
export async function executeTask(deps: RunDeps, prompt: string, options: TaskOptions): Promise<ExecutedRun> {
  const { operator } = options
  requireRunnable({ prompt, ...options })
  const ids = newRunIds(deps.clock)
  const { availability: _, ...prepared } = await prepareRun(deps, options)
  const policyEnvelopeId = await prepareEnvelope(deps, operator, {
    envelopeId: options.envelopeId,
    profile: options.profile,
    own: { taskId: ids.taskId },
  })
  return executeRun(deps, {
    ...ids,
    ...prepared,
    ...limitsOf(options),
    approve: () => approve(deps, operator, prepared.providerId, prepared.transport, ids, options),
    operator,
    prompt,
    policyEnvelopeId,
  })
}

/**
 * Starts a new attempt at an interrupted run's task. The prompt is not stored, so the caller passes it again, and its
 * hash must match. The model learns which commands passed before, and those do not run again.
 */
export async function resumeRun(
  deps: RunDeps,
  operator: string,
  runId: string,
  prompt: string,
  options: PromptOptions & { readonly workspace?: string | undefined },
): Promise<ExecutedRun> {
  const found = await getRun(deps, runId)
  await requireOwn(deps.log, operator, 'resume', 'run', found)
  const { record: run } = found
  requireResumable(found, prompt)
  const passed = await findPassedBefore(deps, run)
  const session = run.session_id === null ? undefined : (await getSession(deps, run.session_id)).record
  if (options.workspace === undefined && session !== undefined) requireResolved(session.workspace)
  const prepared = await prepareRun(deps, {
    operator,
    providerId: run.provider_id,
    modelId: run.model_id ?? undefined,
    fixture: run.runner_mode === 'fixture',
    workspace: options.workspace ?? session?.workspace ?? '.',
    isolation: isolationOf(run),
  })
  const { availability: _, ...input } = prepared
  const ids = newRunIds(deps.clock, run.task_id)
  const limits = {
    ...options,
    maxIterations: options.maxIterations ?? run.max_iterations,
    tokenBudget: options.tokenBudget ?? run.token_budget ?? undefined,
    wallMs: options.wallMs ?? run.wall_budget_ms,
  }
  return executeRun(deps, {
    ...ids,
    ...input,
    ...limitsOf(limits),
    approve: () => approve(deps, operator, run.provider_id, input.transport, ids, limits),
    operator,
    prompt,
    policyEnvelopeId: run.policy_envelope_id,
    ...(run.session_id !== null && { sessionId: run.session_id }),
    resumes: { runId, passed },
  })
}

/** Returns the recorded isolation, never a weaker one. */
function isolationOf({ isolation }: { readonly isolation: string }): RunInput['isolation'] {
  return isolation === 'none' ? 'none' : 'process'
}

function requireResumable(found: Checked<Run>, prompt: string): void {
  const run = requireVerified('run', found)
  if (run.status === 'running' || run.status === 'pending') {
    throw new CraikError('usage', `cannot resume run ${run.id}: it is ${run.status}`, {
      hint: `wait until the run ends, or, if its process was killed:  craik run recover ${run.id}`,
    })
  }
  if (run.status !== 'interrupted') {
    throw new CraikError('usage', `run ${run.id} is ${run.status}: only an interrupted run can be resumed`, {
      hint: 'start a new run:  craik run execute "<task>"',
    })
  }
  if (promptHash(prompt) !== run.prompt_hash) {
    throw new CraikError('usage', `the prompt differs from the one of ${run.id}`, {
      hint: 'use the same text, because Craik does not store prompts, or start a new run:  craik run execute "<task>"',
    })
  }
}

/** Throws when a previous attempt was changed, because a new attempt builds on it. */
function requireVerified<T extends { readonly id: string }>(
  kind: 'run' | 'handoff',
  { record, status }: Checked<T>,
): T {
  if (status === 'verified') return record
  const why = status === 'tampered' ? 'was changed outside Craik' : 'cannot be checked: its key is missing'
  throw new CraikError('tampered', `${kind} ${record.id} ${why}: refusing to continue the run`, {
    hint: 'check the log:  craik receipts verify   or start a new run:  craik run execute "<task>"',
  })
}

/** Reads the handoffs, which derive from receipts and include commands that passed right before a kill. */
async function findPassedBefore(deps: RunDeps, last: Run): Promise<ReadonlyMap<string, string>> {
  const passed = new Map<string, string>()
  let run: Run | undefined = last
  for (let attempts = 0; run !== undefined && attempts < MAX_ATTEMPTS; attempts++) {
    const handoff: Handoff = requireVerified('handoff', await getHandoff(deps, run.handoff_id))
    for (const { command_ref, status, receipt_ids } of handoff.commands_run) {
      if (status === 'passed' && !passed.has(command_ref)) passed.set(command_ref, receipt_ids.at(-1)!)
    }
    run = run.resumed_from === null ? undefined : requireVerified('run', await getRun(deps, run.resumed_from))
  }
  return passed
}

async function approve(
  deps: RunDeps,
  operator: string,
  providerId: string,
  transport: RunInput['transport'],
  { runId }: RunIds,
  { maxIterations = DEFAULT_MAX_ITERATIONS, wallMs = DEFAULT_WALL_MS, allowFixtureAction }: PromptOptions,
): Promise<void> {
  // The fixture requests this command with or without a grant. Registering it grants nothing.
  if (allowFixtureAction || transport === 'fixture') await ensureFixtureAction(deps.store, operator)
  await approvePrompt(deps, {
    operator,
    runId,
    providerId,
    maxIterations,
    lifetimeMs: wallMs + GRANT_MARGIN_MS,
    ...(allowFixtureAction && { commandRef: FIXTURE_ACTION.ref }),
  })
}

function limitsOf({ maxIterations, tokenBudget, wallMs, commandMs, onProgress }: PromptOptions) {
  return { maxIterations, tokenBudget, wallMs, commandMs, onProgress }
}
