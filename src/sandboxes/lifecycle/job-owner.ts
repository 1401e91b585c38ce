/** Only the operator who started a job may read it, send it input and end it, and only while a grant authorizes it. */
import type { JobId, SandboxId } from '../../lib/ids.ts'
import { sandboxLinks } from './decide-sandbox.ts'
import { JOB_OPERATOR_RULE } from './denied-operation.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { RecordedJob, SandboxRecords } from './sandbox-records.ts'
import { requireStillAuthorized } from './still-authorized.ts'
import type { Denied } from './tokens.ts'

interface JobQuestion {
  readonly id: SandboxId
  readonly jobId: JobId
  readonly operator: string
  readonly action: string
}

/**
 * This action only takes something away. Operators may always end what they started, even when they may do nothing
 * else.
 */
const ENDING_ACTION = 'cancel'

/** Returns `undefined` when the job belongs to the operator and may continue, or when no such job exists. */
export async function requireJobOwner(
  records: SandboxRecords,
  { id, jobId, operator, action }: JobQuestion,
): Promise<Denied | undefined> {
  const record = await records.sandbox(id)
  const stored = await records.job(id, jobId)
  if (stored === undefined) return undefined
  if (stored.job.operator !== operator) return refuseJob(records, record, stored, operator, action)
  return action === ENDING_ACTION
    ? undefined
    : requireStillAuthorized(records, record, stored.job.begin, { jobId, action })
}

/** Denies an action on another operator's job. No grant allows it, so policy is not evaluated. */
export async function refuseJob(
  { tables, sealer }: SandboxRecords,
  record: SandboxRecord,
  { row, job }: RecordedJob,
  operator: string,
  action: string,
): Promise<Denied> {
  const { capability, operation, target } = job.begin
  const ref = await sealer.append(tables, {
    kind: 'denial',
    phase: 'point',
    status: 'denied',
    operator,
    capability,
    operation,
    target,
    links: { ...sandboxLinks(record), job_id: row.jobId, policy_envelope_id: record.policy_envelope_id },
    metadata: { denied_kind: 'sandbox_action', action },
    decision: { effect: 'deny', rule: JOB_OPERATOR_RULE, missing: [], replayable: false },
  })
  return {
    effect: 'denied',
    ref,
    asked: { operator, capability, operation, target, scope: {} },
    evaluation: { rule: JOB_OPERATOR_RULE, missing: [], grantOutcome: 'not_required', grantWouldHelp: false },
    profile: 'automation',
  }
}
