/** Sessions in the writer thread: one transaction writes the record and the receipt of each change. */
import { CraikError } from '../../errors.ts'
import type { Owner } from '../../lib/owner.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { type AgentRecords, cleanReason } from './agent-records.ts'
import {
  ACTIVE_STATUSES,
  SESSION_CHANGES,
  type Session,
  type SessionStatus,
  withReceipts,
} from './agent-session.ts'
import { runOwnerState } from './run-owner.ts'
import { endDead, requireDead } from './run-procedures.ts'
import { isOver, type Run } from './run-record.ts'
import type { ChangedSession, ChangeSessionInput, EndedRun, Refused } from './tokens.ts'

export async function insertSession(
  records: AgentRecords,
  { session }: { readonly session: Session },
): Promise<{ readonly session: Session; readonly seal: string; readonly receipt: ReceiptRef }> {
  const receipt = await records.receipt({
    operation: 'launch',
    ...aboutSession(session, session.operator_subject),
  })
  const launched = withReceipts(session, [receipt.id])
  const seal = await records.putSession(launched, 'insert')
  await records.event(undefined, 'launched', { receipt_id: receipt.id }, session.id)
  return { session: launched, seal, receipt }
}

export async function change(
  records: AgentRecords,
  input: ChangeSessionInput,
): Promise<ChangedSession | Refused> {
  const stored = await records.session(input.id)
  const refused = await records.refusal('session', stored, input.operator, input.action)
  if (refused) return refused
  const { record: session } = stored
  switch (input.action) {
    case 'rename':
      return put(records, input, { ...session, display_name: input.name ?? session.display_name })
    case 'restart':
      if (ACTIVE_STATUSES.includes(session.status)) {
        throw new CraikError(
          'usage',
          `session ${session.id} is ${session.status}: it does not need a restart`,
          {
            hint: `stop it first:  craik agent stop ${session.id}`,
          },
        )
      }
      return put(records, input, { ...session, status: 'idle' })
    case 'stop':
      return stop(records, input, session)
    case 'recover':
      return recover(records, input, session)
  }
}

async function stop(
  records: AgentRecords,
  input: ChangeSessionInput,
  session: Session,
): Promise<ChangedSession> {
  if (session.status === 'stopped' || session.status === 'stopping') {
    throw new CraikError('usage', `session ${session.id} is already ${session.status}`, {
      hint:
        session.status === 'stopped'
          ? `restart it:  craik agent restart ${session.id}`
          : `wait, or, if its process was killed:  craik agent recover ${session.id}`,
    })
  }
  const { run, leftRunId } = await activeRun(records, session)
  if (run === undefined || isOver(run)) {
    const stopped = { ...session, status: 'stopped' as const, active_run_id: null, active_task_id: null }
    return put(records, input, stopped, leftRunId === undefined ? {} : { leftRunId })
  }
  if (runOwnerState(run, records.nowMs) === 'dead') {
    const ended = await endDead(records, run, 'owner_died')
    return put(records, input, { ...(ended.session ?? session), status: 'stopped' }, { ended })
  }
  await records.putRun({ ...run, cancel_requested_by: input.operator }, 'update')
  return put(records, input, { ...session, status: 'stopping' }, { signal: run.owner })
}

/** Makes a session usable again, and records truthfully how its run ended. */
async function recover(
  records: AgentRecords,
  input: ChangeSessionInput,
  session: Session,
): Promise<ChangedSession> {
  const { status: from_status, active_run_id } = session
  if (from_status === 'stopped' || (from_status === 'idle' && active_run_id === null)) {
    throw new CraikError('usage', `session ${session.id} is ${from_status}: nothing to recover`, {
      hint:
        from_status === 'stopped'
          ? `restart it:  craik agent restart ${session.id}`
          : `prompt it:  craik agent prompt ${session.id} "<what to do>"`,
    })
  }
  const { run, leftRunId } = await activeRun(records, session)
  let ended: EndedRun | undefined
  if (run !== undefined && !isOver(run)) {
    requireDead(run, records.nowMs)
    ended = await endDead(records, run, 'owner_died')
  }
  const status: SessionStatus = from_status === 'stopping' ? 'stopped' : 'idle'
  return put(
    records,
    input,
    {
      ...(ended?.session ?? session),
      status,
      active_run_id: null,
      active_task_id: null,
      recovery: { at: new Date(records.nowMs).toISOString(), from_status, run_id: active_run_id },
    },
    { ...(ended && { ended }), ...(leftRunId !== undefined && { leftRunId }) },
  )
}

/**
 * Returns the run of a session if its record is intact. A changed or missing record is evidence and stays unchanged.
 * The session drops it, and a process that still works on the run cannot write its next step.
 */
async function activeRun(
  records: AgentRecords,
  { active_run_id: id }: Session,
): Promise<{ readonly run?: Run; readonly leftRunId?: string }> {
  if (id === null) return {}
  try {
    const { record, seal } = await records.run(id)
    return seal === 'verified' ? { run: record } : { leftRunId: id }
  } catch (error) {
    if (error instanceof CraikError && (error.code === 'store_damaged' || error.code === 'not_found')) {
      return { leftRunId: id }
    }
    throw error
  }
}

async function put(
  records: AgentRecords,
  { id, operator, action, reason }: ChangeSessionInput,
  changed: Session,
  more: { readonly ended?: EndedRun; readonly signal?: Owner; readonly leftRunId?: string } = {},
): Promise<ChangedSession> {
  const { record: before } = await records.session(id)
  if (before.status !== changed.status && !SESSION_CHANGES[before.status].includes(changed.status)) {
    throw new CraikError('internal', `session ${id} cannot go from ${before.status} to ${changed.status}`)
  }
  const receipt = await records.receipt({
    operation: action,
    ...aboutSession(changed, operator),
    metadata: {
      from_status: before.status,
      to_status: changed.status,
      ...(more.leftRunId !== undefined && { left_run_id: more.leftRunId }),
    },
  })
  const session = withReceipts(
    { ...changed, updated_at: new Date(records.nowMs).toISOString() },
    [receipt.id],
    changed.receipt_ids.length + 1,
  )
  const seal = await records.putSession(session, 'update')
  await records.event(undefined, EVENTS[action], { receipt_id: receipt.id, ...cleanReason(reason) }, id)
  if (before.status !== 'stopped' && session.status === 'stopped')
    await records.event(undefined, 'exited', {}, id)
  return { outcome: 'changed', session, seal, receipt, ...more }
}

const EVENTS = {
  rename: 'renamed',
  stop: 'stop_requested',
  restart: 'restarted',
  recover: 'recovered',
} as const

function aboutSession(session: Session, operator: string) {
  return {
    status: 'passed' as const,
    operator,
    capability: 'agent.session',
    target: session.id,
    links: {
      session_id: session.id,
      provider_id: session.provider_id,
      backend_id: session.backend_id,
      policy_envelope_id: session.policy_envelope_id,
    },
  }
}
