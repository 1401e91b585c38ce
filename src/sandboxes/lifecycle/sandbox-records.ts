/** Sandboxes and their jobs inside a transaction: followed only with a seal that fits, written only with a new one. */
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

/** The writer thread's sealer, as far as sandboxes need it. */
export interface SandboxSealer extends ReceiptWriter, RecordSealer {}

/** What is sealed of a job: it never changes, but for the epoch of one that is sent again. */
export interface JobDocument {
  readonly operation: OperationName
  readonly operator: string
  readonly epoch: string
  /** The seal of the spec, by which the same request is known again. */
  readonly spec: string
  readonly begin: RecordedBegin
  /** It is ended when nobody has read it or fed it for so long. */
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

  /** A record says which process ends and which folder goes: one that was changed is not followed. */
  async sandbox(id: string): Promise<SandboxRecord> {
    const row = await this.tables.sandboxes.get(id)
    if (row === undefined) throw unknownSandbox(id)
    if (this.isOurs(`sandbox:${id}`, row)) return parseSandbox(row.document)
    throw damagedSandboxError(id, 'was changed outside Craik')
  }

  async put(record: SandboxRecord, how: 'insert' | 'update'): Promise<SandboxRecord> {
    const changed = { ...record, updated_at_ms: this.nowMs }
    const document = canonicalJson(JSON.parse(JSON.stringify(changed)) as Json)
    // What could not be read again is not written.
    parseSandbox(document)
    const seal = await this.sealer.sealRecord(this.tables, `sandbox:${record.id}`, document)
    const row = { id: record.id, document, seal, createdAtMs: record.created_at_ms }
    const done =
      how === 'insert' ? await this.tables.sandboxes.insert(row) : await this.tables.sandboxes.update(row)
    if (!done) throw new CraikError('conflict', `sandbox ${record.id} already exists or was removed`)
    return changed
  }

  async job(sandboxId: string, jobId: string): Promise<RecordedJob | undefined> {
    const row = await this.tables.sandboxJobs.get(sandboxId, jobId)
    if (row === undefined || this.#fits(row)) return row && { row, job: JSON.parse(row.document) }
    throw new CraikError('tampered', `the record of job ${jobId} was changed outside Craik`, {
      hint: 'nothing was done; check the log:  craik receipts verify',
    })
  }

  /** Oldest first. One that was changed is evidence: it stays as it is, and holds up no other. */
  async openJobs(sandboxId: string): Promise<readonly RecordedJob[]> {
    const rows = (await this.tables.sandboxJobs.open(sandboxId)).filter((row) => this.#fits(row))
    return rows.map((row) => ({ row, job: JSON.parse(row.document) as JobDocument }))
  }

  #fits(row: SandboxJobRow): boolean {
    return this.isOurs(sealOfJob(row.sandboxId, row.jobId, row.beginId), row)
  }

  /** Whether its seal fits. One that names a key which is not here is none of ours. */
  isOurs(what: string, { document, seal }: Pick<SandboxJobRow, 'document' | 'seal'>): boolean {
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

  /** The end of an open job, once: undefined when it was not open. */
  async endJob({ row, job }: RecordedJob, outcome: Outcome): Promise<ReceiptRef | undefined> {
    const { sandboxId, jobId, beginId, adopted } = row
    if (!(await this.tables.sandboxJobs.end(sandboxId, jobId))) return undefined
    const metadata = { ...outcome.metadata, epoch: job.epoch, ...(adopted && { adopted }) }
    return this.sealer.append(this.tables, endDraft(beginId, job.begin, { ...outcome, metadata }))
  }

  /** The end of the create or delete in progress. */
  async endPending(pending: PendingBegin, outcome: Outcome): Promise<ReceiptRef> {
    const adopted = ownerState(pending.owner) === 'dead'
    const metadata = { ...outcome.metadata, ...(adopted && { adopted }) }
    return this.sealer.append(
      this.tables,
      endDraft(pending.begin_id as ReceiptRef['id'], pending.begin, { ...outcome, metadata }),
    )
  }

  /** A digest that nobody without the log's key can make or try out. */
  async pin(what: string, value: Json): Promise<string> {
    const seal = await this.sealer.sealRecord(this.tables, what, this.serialize(value))
    return `sha256:${seal.slice(seal.indexOf(':') + 1)}`
  }

  serialize(value: Json): string {
    try {
      return canonicalJson(value)
    } catch (cause) {
      throw new CraikError('usage', 'the request contains text that is not valid Unicode', { cause })
    }
  }
}

export function sealOfJob(sandboxId: string, jobId: JobId | string, beginId: string): string {
  return `sandbox_job:${sandboxId}:${jobId}:${beginId}`
}
