/** Prompting a session, executing a task, resuming a run: three ways into the one path, with the operator's approval. */
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
import { approvePrompt } from './grants.ts'
import type { Handoff } from './handoff.ts'
import { type AgentProfile, prepareEnvelope, prepareRun, type Wanted } from './launch.ts'
import { requireOwn } from './ownership.ts'
import { type Checked, getHandoff, getRun, getSession } from './records.ts'
import type { RunDeps } from './run-deps.ts'
import type { Run } from './run-record.ts'

/** What the operator says with a prompt, besides the prompt. */
export interface PromptOptions {
  readonly maxIterations?: number | undefined
  readonly tokenBudget?: number | undefined
  readonly wallMs?: number | undefined
  readonly commandMs?: number | undefined
  /** One use of the fixture's command. */
  readonly allowFixtureAction: boolean
  readonly onProgress?: RunInput['onProgress']
}

/** How long after the run's own time a grant for it may still be found. */
const GRANT_MARGIN_MS = 60_000
const MAX_ATTEMPTS = 20

export async function promptSession(
  place: RunDeps,
  operator: string,
  sessionId: string,
  prompt: string,
  options: PromptOptions,
): Promise<ExecutedRun> {
  const { record: session } = await getSession(place, sessionId)
  const ids = newRunIds(place.clock)
  return executeRun(place, {
    ...ids,
    ...limitsOf(options),
    approve: () => approve(place, operator, session.provider_id, session.transport, ids, options),
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

/** A task without a session. */
export async function executeTask(
  place: RunDeps,
  prompt: string,
  options: TaskOptions,
): Promise<ExecutedRun> {
  const { operator } = options
  requireRunnable({ prompt, ...options })
  const ids = newRunIds(place.clock)
  const { availability: _, ...prepared } = await prepareRun(place, options)
  const policyEnvelopeId = await prepareEnvelope(place, operator, {
    envelopeId: options.envelopeId,
    profile: options.profile,
    own: { taskId: ids.taskId },
  })
  return executeRun(place, {
    ...ids,
    ...prepared,
    ...limitsOf(options),
    approve: () => approve(place, operator, prepared.providerId, prepared.transport, ids, options),
    operator,
    prompt,
    policyEnvelopeId,
  })
}

/**
 * A new attempt at an interrupted run's task. The prompt is kept nowhere, so it is given again, and has to be the same.
 * What passed before is told to the model, and asked for again it is not run again.
 */
export async function resumeRun(
  place: RunDeps,
  operator: string,
  runId: string,
  prompt: string,
  options: PromptOptions & { readonly workspace?: string | undefined },
): Promise<ExecutedRun> {
  const found = await getRun(place, runId)
  await requireOwn(place.log, operator, 'resume', 'run', found)
  const { record: run } = found
  requireResumable(found, prompt)
  const passed = await passedBefore(place, run)
  const session = run.session_id === null ? undefined : (await getSession(place, run.session_id)).record
  if (options.workspace === undefined && session !== undefined) requireResolved(session.workspace)
  const prepared = await prepareRun(place, {
    operator,
    providerId: run.provider_id,
    modelId: run.model_id ?? undefined,
    fixture: run.runner_mode === 'fixture',
    workspace: options.workspace ?? session?.workspace ?? '.',
    isolation: isolationOf(run),
  })
  const { availability: _, ...input } = prepared
  const ids = newRunIds(place.clock, run.task_id)
  const limits = {
    ...options,
    maxIterations: options.maxIterations ?? run.max_iterations,
    tokenBudget: options.tokenBudget ?? run.token_budget ?? undefined,
    wallMs: options.wallMs ?? run.wall_budget_ms,
  }
  return executeRun(place, {
    ...ids,
    ...input,
    ...limitsOf(limits),
    approve: () => approve(place, operator, run.provider_id, input.transport, ids, limits),
    operator,
    prompt,
    policyEnvelopeId: run.policy_envelope_id,
    ...(run.session_id !== null && { sessionId: run.session_id }),
    resumes: { runId, passed },
  })
}

/** What a record names, and never anything weaker in place of what it does not. */
function isolationOf({ isolation }: { readonly isolation: string }): RunInput['isolation'] {
  return isolation === 'none' ? 'none' : 'process'
}

function requireResumable(found: Checked<Run>, prompt: string): void {
  const run = trusted('run', found)
  if (run.status === 'running' || run.status === 'pending') {
    throw new CraikError('usage', `run ${run.id} is ${run.status}`, {
      hint: `if its process was killed:  craik run recover ${run.id}`,
    })
  }
  if (run.status !== 'interrupted') {
    throw new CraikError('usage', `run ${run.id} is ${run.status}: only an interrupted run can be resumed`)
  }
  if (promptHash(prompt) !== run.prompt_hash) {
    throw new CraikError('usage', `the prompt differs from the one of ${run.id}`, {
      hint: 'use the same text, because Craik does not store prompts, or start a new run:  craik run execute "<task>"',
    })
  }
}

/** A new attempt stands on what the last ones left: nothing of it may have been changed. */
function trusted<T extends { readonly id: string }>(
  kind: 'run' | 'handoff',
  { record, status }: Checked<T>,
): T {
  if (status === 'verified') return record
  const why = status === 'tampered' ? 'was changed outside Craik' : 'cannot be checked: its key is missing'
  throw new CraikError('tampered', `${kind} ${record.id} ${why}: refusing to continue the run`, {
    hint: 'check the log:  craik receipts verify   or start a new run:  craik run execute "<task>"',
  })
}

/** From the handoffs, which have it from the receipts: also what passed right before a kill. */
async function passedBefore(place: RunDeps, last: Run): Promise<ReadonlyMap<string, string>> {
  const passed = new Map<string, string>()
  let run: Run | undefined = last
  for (let attempts = 0; run !== undefined && attempts < MAX_ATTEMPTS; attempts++) {
    const handoff: Handoff = trusted('handoff', await getHandoff(place, run.handoff_id))
    for (const { command_ref, status, receipt_ids } of handoff.commands_run) {
      if (status === 'passed' && !passed.has(command_ref)) passed.set(command_ref, receipt_ids.at(-1)!)
    }
    run = run.resumed_from === null ? undefined : trusted('run', await getRun(place, run.resumed_from))
  }
  return passed
}

async function approve(
  place: RunDeps,
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

function limitsOf({ maxIterations, tokenBudget, wallMs, commandMs, onProgress }: PromptOptions) {
  return { maxIterations, tokenBudget, wallMs, commandMs, onProgress }
}
