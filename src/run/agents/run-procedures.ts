/** Runs in the writer thread: each step of a run is stored before it starts. */
import { hash } from 'node:crypto'
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import { type Owner, sameOwner } from '../../lib/owner.ts'
import type { Receipt, ReceiptStatus } from '../../receipts/schema.ts'
import type { AgentRecords } from './agent-records.ts'
import {
  MAX_SESSION_HANDOFFS,
  SESSION_CHANGES,
  type Session,
  type SessionStatus,
  withReceipts,
} from './agent-session.ts'
import { buildHandoff } from './handoff.ts'
import { parseReceiptBody } from './receipt-body.ts'
import { closeOpenReceipts, deadlineMs, runOwnerState } from './run-owner.ts'
import { isOver, PHASE_CHANGES, type Run } from './run-record.ts'
import { countTokens } from './token-budget.ts'
import type { AdvanceRunInput, EndedRun, FinishRunInput, Refused, RunRequest } from './tokens.ts'

/** More receipts than the limits of a run allow. */
const MAX_RUN_RECEIPTS = 20_000

export async function insertRun(
  records: AgentRecords,
  { run }: { readonly run: Run },
): Promise<Refused | { readonly outcome: 'begun'; readonly run: Run }> {
  let session: Session | undefined
  if (run.session_id !== null) {
    const stored = await records.session(run.session_id)
    const refused = await records.refusal('session', stored, run.operator_subject, 'prompt')
    if (refused) return refused
    session = stored.record
    requireReady(session, run)
  }
  await records.receipt({ status: 'passed', operation: 'begin', ...aboutRun(run) })
  await records.putRun(run, 'insert')
  await records.event(run, 'prompt_received', { prompt_hash: run.prompt_hash, task_id: run.task_id })
  if (session !== undefined) {
    await records.putSession(
      {
        ...session,
        status: 'running',
        active_task_id: run.task_id,
        active_run_id: run.id,
        updated_at: new Date(records.nowMs).toISOString(),
      },
      'update',
    )
  }
  return { outcome: 'begun', run }
}

/** A session runs one run at a time. The run must have the session's provider, backend and envelope. */
function requireReady(session: Session, run: Run): void {
  const { id, status, active_run_id } = session
  if (
    session.policy_envelope_id !== run.policy_envelope_id ||
    session.provider_id !== run.provider_id ||
    session.backend_id !== run.backend_id
  ) {
    throw new CraikError('usage', `session ${id} is for another provider, backend or policy envelope`, {
      hint: `show what the session uses:  craik agent show ${id}   or start another:  craik agent launch`,
    })
  }
  if (SESSION_CHANGES[status].includes('running')) return
  if (status === 'running' || status === 'stopping') {
    throw new CraikError('usage', `session ${id} is ${status}: ${active_run_id ?? 'a run'} has not ended`, {
      hint: `wait until the run ends, or, if its process was killed:  craik agent recover ${id}`,
    })
  }
  throw new CraikError('usage', `session ${id} is ${status}`, {
    hint: `restart it:  craik agent restart ${id}`,
  })
}

export async function advance(
  records: AgentRecords,
  input: AdvanceRunInput,
): Promise<{ readonly cancelRequestedBy: string | null }> {
  const run = await records.getTrustedRun(input.runId)
  requireOwner(run, input.owner)
  if (!PHASE_CHANGES[run.phase].includes(input.phase)) {
    throw new CraikError('internal', `run ${run.id} cannot go from ${run.phase} to ${input.phase}`)
  }
  await records.putRun(
    {
      ...run,
      phase: input.phase,
      iteration: input.iteration ?? run.iteration,
      tokens_used: input.tokensUsed === undefined ? run.tokens_used : input.tokensUsed,
      provider_result_count: input.providerResultCount ?? run.provider_result_count,
      commands: input.command === undefined ? run.commands : [...run.commands, input.command],
    },
    'update',
  )
  return { cancelRequestedBy: run.cancel_requested_by }
}

export async function finish(records: AgentRecords, input: FinishRunInput): Promise<EndedRun> {
  const run = await records.getTrustedRun(input.runId)
  requireOwner(run, input.owner)
  return endRun(records, run, input)
}

/** Ends a run. Every caller uses this function, so that a run ends in only one way. */
async function endRun(
  records: AgentRecords,
  run: Run,
  { status, stopReason, sessionStatus }: Pick<FinishRunInput, 'status' | 'stopReason' | 'sessionStatus'>,
): Promise<EndedRun> {
  const bodies = await receiptsOf(records, run.id)
  const ended: Run = {
    ...run,
    status,
    phase: 'stop',
    stop_reason: stopReason,
    ended_at: new Date(records.nowMs).toISOString(),
    // The ledger's count, which can differ from the run's own.
    tokens_used: countTokens(bodies),
    receipt_ids: bodies.map(({ id }) => id),
  }
  const handoff = buildHandoff(ended, bodies, records.nowMs)
  const receipt = await records.receipt({
    status: RECEIPT_STATUS[status],
    operation: 'end',
    ...aboutRun(ended),
    digests: { handoff: `sha256:${hash('sha256', canonicalJson(handoff as unknown as Json))}` },
    metadata: { run_status: status, stop_reason: stopReason, iteration: run.iteration },
  })
  const final = { ...ended, receipt_ids: [...ended.receipt_ids, receipt.id] }
  await records.putRun(final, 'update')
  await records.putHandoff(handoff)
  await records.event(run, `run_${status}`, { stop_reason: stopReason, handoff_id: handoff.id })
  const session = await endInSession(records, final, sessionStatus)
  return { outcome: 'ended', run: final, handoff, ...(session && { session }) }
}

const RECEIPT_STATUS: Readonly<Record<FinishRunInput['status'], ReceiptStatus>> = {
  completed: 'passed',
  blocked: 'blocked',
  failed: 'failed',
  interrupted: 'failed',
}

async function endInSession(
  records: AgentRecords,
  run: Run,
  wanted: SessionStatus,
): Promise<Session | undefined> {
  if (run.session_id === null) return undefined
  const { record, seal } = await records.session(run.session_id)
  // A session that was changed outside Craik is evidence, so it gets no new seal.
  if (seal !== 'verified' || record.active_run_id !== run.id) return undefined
  const status = record.status === 'stopping' ? 'stopped' : wanted
  const session: Session = {
    ...withReceipts(record, run.receipt_ids, run.receipt_ids.length),
    status,
    active_task_id: null,
    active_run_id: null,
    updated_at: new Date(records.nowMs).toISOString(),
    handoff_ids: [...record.handoff_ids, run.handoff_id].slice(-MAX_SESSION_HANDOFFS),
  }
  await records.putSession(session, 'update')
  if (status === 'stopped') await records.event(undefined, 'exited', {}, session.id)
  return session
}

export async function cancel(
  records: AgentRecords,
  { runId, operator }: RunRequest,
): Promise<Refused | EndedRun | { readonly outcome: 'requested'; readonly owner: Owner }> {
  const stored = await records.run(runId)
  const refused = await records.refusal('run', stored, operator, 'cancel')
  if (refused) return refused
  const run = stored.record
  requireGoingOn(run)
  if (runOwnerState(run, records.nowMs) === 'dead') return endDead(records, run, 'cancelled')
  await records.receipt({ status: 'passed', operation: 'cancel', ...aboutRun(run), operator })
  await records.putRun({ ...run, cancel_requested_by: operator }, 'update')
  return { outcome: 'requested', owner: run.owner }
}

export async function recover(
  records: AgentRecords,
  { runId, operator }: RunRequest,
): Promise<Refused | EndedRun> {
  const stored = await records.run(runId)
  const refused = await records.refusal('run', stored, operator, 'recover')
  if (refused) return refused
  requireGoingOn(stored.record)
  requireDead(stored.record, records.nowMs)
  return endDead(records, stored.record, 'owner_died')
}

/** Ends the dead process's open receipts as indeterminate first, so that the handoff can report them. */
export async function endDead(records: AgentRecords, run: Run, stopReason: string): Promise<EndedRun> {
  await closeOpenReceipts(records, run)
  return endRun(records, run, { status: 'interrupted', stopReason, sessionStatus: 'idle' })
}

export function requireDead(run: Run, nowMs: number): void {
  const state = runOwnerState(run, nowMs)
  if (state === 'dead') return
  const until = new Date(deadlineMs(run)).toISOString()
  throw new CraikError(
    'usage',
    state === 'alive'
      ? `run ${run.id} is running in process ${run.owner.pid}`
      : `cannot determine whether run ${run.id} is still running; after ${until} Craik treats it as dead`,
    { hint: `cancel the run first:  craik run cancel ${run.id}` },
  )
}

function requireGoingOn(run: Run): void {
  if (!isOver(run)) return
  throw new CraikError('usage', `run ${run.id} has already ended: ${run.status}`, {
    hint: `show it:  craik run show ${run.id}`,
  })
}

function requireOwner(run: Run, owner: Owner): void {
  if (isOver(run)) {
    throw new CraikError('conflict', `another process ended run ${run.id}: ${run.status}`, {
      hint: `show it:  craik run show ${run.id}`,
    })
  }
  if (!sameOwner(run.owner, owner))
    throw new CraikError('conflict', `run ${run.id} belongs to another process`, {
      hint: `show the run:  craik run show ${run.id}`,
    })
}

async function receiptsOf(records: AgentRecords, runId: string): Promise<readonly Receipt['body'][]> {
  const rows = await records.tables.receipts.find({ runId }, MAX_RUN_RECEIPTS)
  return rows.toReversed().flatMap(({ line }) => parseReceiptBody(line) ?? [])
}

function aboutRun(run: Run) {
  return {
    operator: run.operator_subject,
    capability: 'agent.run',
    target: run.id,
    links: {
      run_id: run.id,
      task_id: run.task_id,
      handoff_id: run.handoff_id,
      provider_id: run.provider_id,
      backend_id: run.backend_id,
      policy_envelope_id: run.policy_envelope_id,
      ...(run.session_id !== null && { session_id: run.session_id }),
    },
  }
}
