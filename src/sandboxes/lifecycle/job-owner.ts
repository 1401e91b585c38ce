/** A job is for who started it: to read, to feed and to end, for as long as a grant carries it. */
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

/** What only takes away: whoever began something may end it, also when they may do nothing else any more. */
const ENDING_ACTION = 'cancel'

/** Undefined when it is the operator's own and may go on, or there is no such job. */
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

/** No grant opens it, so policy is not asked: whose it is decides. */
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
