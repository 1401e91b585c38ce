/**
 * Records one prompt: begins the record before the agent gets the prompt, opens the permissions, and ends the record
 * with the changes.
 */
import { hash } from 'node:crypto'
import { CraikError } from '../../errors.ts'
import type { Harness } from '../../harnesses/harness.ts'
import { newId } from '../../lib/ids.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { StoredChangeSet } from '../../run/changes/change-set.ts'
import type { PermissionMode } from '../../run/prompts/permissions.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import { beginRun, changeRun } from '../../run/prompts/runs.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { printNote } from '../output.ts'
import { promptChanges } from './prompt-changes.ts'
import { openPermissions, type Permissions } from './prompt-permissions.ts'

export interface PromptRunRequest {
  /** The typed command, for the grant that Craik creates. */
  readonly command: 'craik prompt' | 'craik acp'
  readonly harness: Harness
  readonly text: string
  readonly permissions: PermissionMode
  readonly timeoutMs: number
  /** The run that this one resumes. */
  readonly resumes: PromptRun | undefined
  /** True if all changes of the resumed run were applied. The change set then contains only the changes of this run. */
  readonly isBroughtOver?: boolean
  readonly sandbox: SandboxBody
  readonly madeSandbox: boolean
  /** The folder of the host that the prompt works on. */
  readonly workspace: string | null
  /** The agent's own id of its session, if it is known already. */
  readonly agentSession: string | null
}

export interface RecordedRun {
  readonly begun: PromptRun
  readonly permissions: Permissions
  end(status: 'completed' | 'cancelled' | 'failed', stopReason: string): Promise<EndedPromptRun>
  /** Ends a run whose agent did not end by itself. */
  fail(error: unknown, isCancelled: boolean): Promise<EndedPromptRun>
}

export interface EndedPromptRun {
  readonly run: PromptRun
  readonly kept: StoredChangeSet | undefined
}

/** The time after the timeout in which the agent is stopped and its end is recorded. */
const MARGIN_MS = 60_000

export async function beginRecordedRun(
  context: CliContext,
  client: ApiClient,
  request: PromptRunRequest,
): Promise<RecordedRun> {
  const { harness, sandbox } = request
  const [store, log, operator] = await Promise.all([context.store(), context.log(), context.operator()])
  const begun = newRun(context, operator, request, log.owner)
  const changes = promptChanges(context, client, request.isBroughtOver ? undefined : request.resumes)
  await changes.before(begun)
  await beginRun(store, begun)
  const end: RecordedRun['end'] = async (status, stopReason) => {
    const changeSet = await changes.after(begun).catch((error: unknown) => {
      printNote(
        context,
        `craik: could not read the changes, which are still in sandbox ${sandbox.name}: ${wordsOf(error)}\n`,
      )
      return undefined
    })
    const changed_files = changeSet?.record.changes.length ?? null
    const run = await changeRun(store, {
      id: begun.id,
      end: { status, stop_reason: stopReason, changed_files },
    })
    return { run, kept: changeSet }
  }
  const permissions = await openPermissions(
    context,
    {
      store,
      log,
      operator,
      runId: begun.id,
      sandboxId: sandbox.id,
      harness: harness.name,
      policyEnvelopeId: sandbox.policy_envelope_id,
      command: request.command,
    },
    request.permissions,
    context.clock.nowMs() + request.timeoutMs + MARGIN_MS,
  )
  return {
    begun,
    permissions,
    end,
    fail: (error, isCancelled) =>
      end(isCancelled ? 'cancelled' : 'failed', error instanceof CraikError ? error.code : 'internal'),
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function newRun(
  context: CliContext,
  operator: string,
  { harness, sandbox, madeSandbox, workspace, resumes, text, agentSession }: PromptRunRequest,
  owner: PromptRun['owner'],
): PromptRun {
  return {
    schema: 'craik.prompt_run',
    version: '0.1.0',
    id: newId('run', context.clock.nowMs()),
    operator_subject: operator,
    harness: harness.name,
    sandbox_id: sandbox.id,
    made_sandbox: madeSandbox,
    workspace,
    workspace_mode: sandbox.workspace.mode,
    agent_session: agentSession,
    resumed_from: resumes?.id ?? null,
    prompt_hash: hash('sha256', text).slice(0, 16),
    status: 'running',
    stop_reason: null,
    changed_files: null,
    owner: {
      bootId: owner.bootId,
      pid: owner.pid,
      startedAt: owner.startedAt,
      pidNamespace: owner.pidNamespace,
    },
    created_at: new Date(context.clock.nowMs()).toISOString(),
    ended_at: null,
  }
}
