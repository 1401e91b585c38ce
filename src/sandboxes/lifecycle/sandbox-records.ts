/**
 * Sandboxes and their jobs in a transaction. Records are followed only with a valid seal, and written only with a new
 * one.
 */
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { Clock } from '../../lib/clock.ts'
import type { JobId } from '../../lib/ids.ts'
import { ownerState } from '../../lib/owner.ts'
import { endDraft, type Outcome } from '../../receipts/receipt-log.ts'
import type { ReceiptRef, ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { RecordSealer } from '../../receipts/record-seal.ts'
import type { SandboxJobRow } from '../../store/sandbox-tables.ts'
import type { Tables } from '../../store/store.ts'
import type { OperationName } from '../operations.ts'
import {
  damagedSandboxError,
  type PendingBegin,
  parseSandbox,
  type RecordedBegin,
  type SandboxRecord,
  unknownSandbox,
} from './sandbox-record.ts'

/** The part of the writer thread's sealer that sandboxes need. */
export interface SandboxSealer extends ReceiptWriter, RecordSealer {}

/** The sealed part of a job. It never changes, except for the epoch of a job that is sent again. */
export interface JobDocument {
  readonly operation: OperationName
  readonly operator: string
  readonly epoch: string
  /** The seal of the spec, which identifies a repeated request. */
  readonly spec: string
  readonly begin: RecordedBegin
  /** Craik ends the job when no client has read it or sent it input for this time. */
  readonly endsWhenLeftMs?: number
}

export interface RecordedJob {
  readonly row: SandboxJobRow
  readonly job: JobDocument
}

export class SandboxRecords {
  readonly tables: Tables
  readonly sealer: SandboxSealer
  readonly clock: Clock
  readonly nowMs: number

  constructor(tables: Tables, sealer: SandboxSealer, clock: Clock) {
    this.tables = tables
    this.sealer = sealer
    this.clock = clock
    this.nowMs = clock.nowMs()
  }

  /**
   * Reads a sandbox. Its record says which process to end and which folder to remove, so a changed record is refused.
   */
  async sandbox(id: string): Promise<SandboxRecord> {
    const row = await this.tables.sandboxes.get(id)
    if (row === undefined) throw unknownSandbox(id)
    if (this.isSealValid(`sandbox:${id}`, row)) return parseSandbox(row.document)
    throw damagedSandboxError(id, 'was changed outside Craik')
  }

  async put(record: SandboxRecord, how: 'insert' | 'update'): Promise<SandboxRecord> {
    const changed = { ...record, updated_at_ms: this.nowMs }
    const document = canonicalJson(JSON.parse(JSON.stringify(changed)) as Json)
    // A record that could not be read again is not written.
    parseSandbox(document)
    const seal = await this.sealer.sealRecord(this.tables, `sandbox:${record.id}`, document)
    const row = { id: record.id, document, seal, createdAtMs: record.created_at_ms }
    const done =
      how === 'insert' ? await this.tables.sandboxes.insert(row) : await this.tables.sandboxes.update(row)
    if (!done)
      throw new CraikError('conflict', `sandbox ${record.id} already exists or was removed`, {
        hint: 'list the sandboxes:  craik sandbox list',
      })
    return changed
  }

  async job(sandboxId: string, jobId: string): Promise<RecordedJob | undefined> {
    const row = await this.tables.sandboxJobs.get(sandboxId, jobId)
    if (row === undefined || this.#fits(row)) return row && { row, job: JSON.parse(row.document) }
    throw new CraikError('tampered', `the record of job ${jobId} was changed outside Craik`, {
      hint: 'check the log:  craik receipts verify   (nothing was done)',
    })
  }

  /** Returns the oldest job first. A changed record is evidence: it stays as it is, and does not block the others. */
  async openJobs(sandboxId: string): Promise<readonly RecordedJob[]> {
    const rows = (await this.tables.sandboxJobs.open(sandboxId)).filter((row) => this.#fits(row))
    return rows.map((row) => ({ row, job: JSON.parse(row.document) as JobDocument }))
  }

  #fits(row: SandboxJobRow): boolean {
    return this.isSealValid(sealOfJob(row.sandboxId, row.jobId, row.beginId), row)
  }

  /** Returns whether the seal is valid. A seal with an unknown key is not Craik's. */
  isSealValid(what: string, { document, seal }: Pick<SandboxJobRow, 'document' | 'seal'>): boolean {
    try {
      return this.sealer.checkRecord(what, document, seal) === 'verified'
    } catch {
      return false
    }
  }

  async sealJob(
    { sandboxId, jobId, beginId }: Pick<SandboxJobRow, 'sandboxId' | 'jobId' | 'beginId'>,
    job: JobDocument,
  ): Promise<Pick<SandboxJobRow, 'document' | 'seal'>> {
    const document = canonicalJson(JSON.parse(JSON.stringify(job)) as Json)
    const what = sealOfJob(sandboxId, jobId, beginId)
    return { document, seal: await this.sealer.sealRecord(this.tables, what, document) }
  }

  /** Ends an open job, once. Returns `undefined` when the job was not open. */
  async endJob({ row, job }: RecordedJob, outcome: Outcome): Promise<ReceiptRef | undefined> {
    const { sandboxId, jobId, beginId, adopted } = row
    if (!(await this.tables.sandboxJobs.end(sandboxId, jobId))) return undefined
    const metadata = { ...outcome.metadata, epoch: job.epoch, ...(adopted && { adopted }) }
    return this.sealer.append(this.tables, endDraft(beginId, job.begin, { ...outcome, metadata }))
  }

  /** Ends the transition in progress. */
  async endPending(pending: PendingBegin, outcome: Outcome): Promise<ReceiptRef> {
    const adopted = ownerState(pending.owner) === 'dead'
    const metadata = { ...outcome.metadata, ...(adopted && { adopted }) }
    return this.sealer.append(
      this.tables,
      endDraft(pending.begin_id as ReceiptRef['id'], pending.begin, { ...outcome, metadata }),
    )
  }

  /** Returns a digest that cannot be computed or guessed without the log's key. */
  async pin(what: string, value: Json): Promise<string> {
    const seal = await this.sealer.sealRecord(this.tables, what, this.serialize(value))
    return `sha256:${seal.slice(seal.indexOf(':') + 1)}`
  }

  serialize(value: Json): string {
    try {
      return canonicalJson(value)
    } catch (cause) {
      throw new CraikError('usage', 'the request contains text that is not valid Unicode', {
        hint: 'check the arguments, the environment and the paths of the request',
        cause,
      })
    }
  }
}

export function sealOfJob(sandboxId: string, jobId: JobId | string, beginId: string): string {
  return `sandbox_job:${sandboxId}:${jobId}:${beginId}`
}
