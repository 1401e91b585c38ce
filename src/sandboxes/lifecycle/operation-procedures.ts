/** Operations on a running sandbox. Each begins with a decision, once per job id, and ends once. */
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import type { JobId, SandboxId } from '../../lib/ids.ts'
import type { Owner } from '../../lib/owner.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { OPERATIONS } from '../operations.ts'
import { commitDecision, evaluateSandbox, requestAbout, sandboxLinks } from './decide-sandbox.ts'
import { requireFreshId } from './forget-jobs.ts'
import { refuseJob } from './job-owner.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { RecordedJob, SandboxRecords } from './sandbox-records.ts'
import { requireStillAuthorized } from './still-authorized.ts'
import type {
  BeginOperationInput,
  BeginOperationOutput,
  CheckOperationInput,
  Denied,
  EndOperationInput,
  EndOperationOutput,
  JobInput,
} from './tokens.ts'
import { notRunning, OPERABLE } from './transitions.ts'

const JOB_ID = /^job_[0-9A-HJKMNP-TV-Z]{26}$/

export async function beginOperation(
  records: SandboxRecords,
  input: BeginOperationInput,
): Promise<BeginOperationOutput> {
  const record = await records.sandbox(input.id)
  const { job } = input
  if (job !== undefined && !JOB_ID.test(job.id))
    throw new CraikError('usage', `${JSON.stringify(job.id.slice(0, 40))} is not a job id`, {
      hint: 'omit the job id for a new job, or use one that Craik printed',
    })
  const known = job && (await records.job(input.id, job.id))
  if (job !== undefined && known !== undefined) return repeatOperation(records, record, input, job, known)

  requireRunning(record)
  const operation = OPERATIONS[input.operation]
  const evaluated = await evaluateSandbox(records, requestAbout(record, operation, input))
  if (evaluated.isAllowed && job !== undefined) requireFreshId(record, job.id)
  // Only a caller who may run something learns which commands are registered.
  const argv = evaluated.isAllowed ? await argvOf(records, job) : undefined
  const digests = await digestPins(records, input, argv)
  const settled = await commitDecision(
    records,
    evaluated,
    {
      links: {
        ...sandboxLinks(record),
        ...(job && { job_id: job.id }),
        ...(job?.commandRef !== undefined && { command_ref: job.commandRef }),
      },
      ...(record.place && { isolation: record.place.isolation }),
      ...(Object.keys(digests).length > 0 && { digests }),
      metadata: { ...input.metadata, epoch: input.epoch },
    },
    input.owner,
  )
  if (settled.effect === 'denied') return settled
  const { begun } = settled
  if (job !== undefined) {
    const row = { sandboxId: input.id, jobId: job.id, beginId: begun.id }
    const sealed = await records.sealJob(row, {
      operation: input.operation,
      operator: input.operator,
      epoch: input.epoch,
      spec: await records.sealer.sealRecord(
        records.tables,
        specOf(input),
        records.serialize(wholeSpec(job, argv)),
      ),
      begin: begun.begin,
      ...(job.endsWhenLeftMs !== undefined && { endsWhenLeftMs: job.endsWhenLeftMs }),
    })
    const { owner } = input
    const createdAtMs = records.nowMs
    await records.tables.sandboxJobs.insert({
      ...row,
      ...sealed,
      state: 'open',
      owner,
      adopted: false,
      createdAtMs,
    })
  }
  return { effect: 'allowed', begun, ...(job?.commandRef !== undefined && argv && { argv }) }
}

export async function checkOperation(
  records: SandboxRecords,
  input: CheckOperationInput,
): Promise<Denied | undefined> {
  const record = await records.sandbox(input.id)
  requireRunning(record)
  const evaluated = await evaluateSandbox(records, requestAbout(record, OPERATIONS[input.operation], input))
  if (evaluated.isAllowed) return undefined
  const receipt = { links: sandboxLinks(record), metadata: { ...input.metadata, epoch: input.epoch } }
  const settled = await commitDecision(records, evaluated, receipt, input.owner)
  return settled.effect === 'denied' ? settled : undefined
}

/** Answers a retry with the job that began before. Any other request under the same id is refused. */
async function repeatOperation(
  records: SandboxRecords,
  record: SandboxRecord,
  input: BeginOperationInput,
  job: JobInput,
  known: RecordedJob,
): Promise<BeginOperationOutput> {
  const { row, job: stored } = known
  if (stored.operator !== input.operator) return refuseJob(records, record, known, input.operator, 'start')
  const refused = await requireStillAuthorized(records, record, stored.begin, {
    jobId: job.id,
    action: 'start',
  })
  if (refused !== undefined) return refused
  const argv = await argvOf(records, job)
  const isSame =
    stored.operation === input.operation &&
    records.sealer.checkRecord(specOf(input), records.serialize(wholeSpec(job, argv)), stored.spec) ===
      'verified'
  if (!isSame) {
    throw new CraikError(
      'conflict',
      `the job id ${job.id} is already used by another command in this sandbox`,
      {
        hint: 'use another --job-id, or omit it: a job id identifies one request',
      },
    )
  }
  return {
    effect: 'allowed',
    begun: { id: row.beginId, begin: stored.begin, epoch: stored.epoch },
    known: { state: row.state },
    ...(job.commandRef !== undefined && argv && { argv }),
  }
}

export async function endOperation(
  records: SandboxRecords,
  { id, begun, jobId, status, measures, metadata }: EndOperationInput,
): Promise<EndOperationOutput> {
  const outcome = { status, ...(measures && { measures }), metadata: { ...metadata } }
  if (jobId !== undefined) {
    const stored = await records.job(id, jobId)
    return stored && records.endJob(stored, outcome)
  }
  const more = { ...outcome.metadata, ...(begun.epoch !== null && { epoch: begun.epoch }) }
  return records.sealer.append(
    records.tables,
    endDraft(begun.id, begun.begin, { ...outcome, metadata: more }),
  )
}

/** Records that a job of an earlier epoch reaches the sandbox in this epoch, so that it counts here. */
export async function restartJob(
  records: SandboxRecords,
  { id, jobId, epoch, owner }: RestartInput,
): Promise<ReceiptRef> {
  requireRunning(await records.sandbox(id))
  const stored = await records.job(id, jobId)
  if (stored === undefined || stored.row.state !== 'open') {
    throw new CraikError('conflict', `cannot restart job ${jobId} of sandbox ${id}: it has ended`, {
      hint: `list the jobs:  craik sandbox logs ${id}`,
    })
  }
  const { row, job } = stored
  const { kind, operator, capability, operation, target, links } = job.begin
  const ref = await records.sealer.append(records.tables, {
    kind,
    phase: 'point',
    status: 'passed',
    operator,
    capability,
    operation,
    target,
    links: { ...links, receipt_ids: [row.beginId] },
    metadata: { epoch, restarted: true },
  })
  await records.tables.sandboxJobs.update({ ...row, ...(await records.sealJob(row, { ...job, epoch })) })
  await records.tables.sandboxJobs.adopt(id, jobId, owner)
  return ref
}

interface RestartInput {
  readonly id: SandboxId
  readonly jobId: JobId
  readonly epoch: string
  readonly owner: Owner
}

function requireRunning(record: SandboxRecord): void {
  if (record.state !== OPERABLE) throw notRunning(record)
}

async function argvOf(
  { tables }: SandboxRecords,
  job: JobInput | undefined,
): Promise<readonly string[] | undefined> {
  if (job?.commandRef === undefined) return job?.argv
  const command = await tables.commands.get(job.commandRef)
  if (command !== undefined) return command.argv
  throw new CraikError('not_found', `no registered command is named ${job.commandRef}`, {
    hint: `list the commands:  craik command list   or register one:  craik command register ${job.commandRef} -- PROGRAM ARGUMENTS`,
  })
}

/** Returns `argv` and the pinned values, each as a digest that only the log's key can create. */
async function digestPins(
  records: SandboxRecords,
  { id, pinned = {} }: BeginOperationInput,
  argv: readonly string[] | undefined,
): Promise<Record<string, string>> {
  const values: Record<string, Json> = { ...pinned, ...(argv && { argv }) }
  const digests: Record<string, string> = {}
  for (const [name, value] of Object.entries(values))
    digests[`${name}_hmac`] = await records.pin(`pinned:${name}:${id}`, value)
  return digests
}

function specOf({ id, job }: BeginOperationInput): string {
  return `sandbox_spec:${id}:${job?.id}`
}

/** Includes the command that a reference stood for: another command under the same name is another request. */
function wholeSpec({ spec, commandRef, endsWhenLeftMs }: JobInput, argv: readonly string[] = []): Json {
  return {
    spec,
    argv,
    ...(commandRef !== undefined && { command_ref: commandRef }),
    ...(endsWhenLeftMs !== undefined && { ends_when_left_ms: endsWhenLeftMs }),
  }
}
