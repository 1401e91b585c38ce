/** The tables of sandboxes, their jobs, and the counters of their boundaries. */
import type { JobId, ReceiptId, SandboxId } from '../lib/ids.ts'
import type { Owner } from '../lib/owner.ts'
import type { SealedTable } from './agent-tables.ts'

export interface SandboxTable extends SealedTable<'name' | 'state' | 'operator'> {
  /**
   * Returns whether a begin receipt belongs to an existing sandbox: to an open job, or to a create or delete in
   * progress. Programs in the sandbox can still run when the process that started them is dead.
   */
  holds(beginId: string): Promise<boolean>
}

export type SnapshotTable = SealedTable<'name'>

/** Instances that were started in advance. None of their ids is the id of a sandbox. */
export type WarmInstanceTable = SealedTable<never>

export interface SandboxJobRow {
  readonly sandboxId: SandboxId
  readonly jobId: JobId
  readonly beginId: ReceiptId
  /** JSON with the operator, and with the data that the end receipt repeats from the begin receipt. */
  readonly document: string
  readonly seal: string
  readonly state: 'open' | 'ended'
  /** The process that is responsible for the job now. Null when Craik did not write the stored value. */
  readonly owner: Owner | null
  /** True when another process started the job. */
  readonly adopted: boolean
  readonly createdAtMs: number
  /** The operator in the document. Null when the document names none. */
  readonly operator: string | null
}

export interface SandboxJobTable {
  /** Returns false when the sandbox has a job with this id. */
  insert(row: Omit<SandboxJobRow, 'operator'>): Promise<boolean>
  get(sandboxId: string, jobId: string): Promise<SandboxJobRow | undefined>
  /** Oldest first. */
  open(sandboxId: string): Promise<readonly SandboxJobRow[]>
  /** Returns the jobs of every sandbox, open or ended, in the order of their ids. */
  scan(
    after: Pick<SandboxJobRow, 'sandboxId' | 'jobId'> | undefined,
    limit: number,
  ): Promise<readonly SandboxJobRow[]>
  /** Returns false when the job is not open. */
  end(sandboxId: string, jobId: string): Promise<boolean>
  /** Returns false when there is no such job. */
  update(row: Pick<SandboxJobRow, 'sandboxId' | 'jobId' | 'document' | 'seal'>): Promise<boolean>
  /** Returns false when the job is not open. */
  adopt(sandboxId: string, jobId: string, owner: Owner): Promise<boolean>
  /** Removes the ended jobs except for the `keep` greatest ids. Returns the greatest id that was removed. */
  removeOld(sandboxId: string, keep: number): Promise<JobId | undefined>
  removeAll(sandboxId: string): Promise<void>
}

export interface BoundaryEpochRow {
  readonly sandboxId: SandboxId
  readonly epoch: string
  /** The counters by name, as JSON. */
  readonly counts: string
  readonly closed: boolean
  readonly updatedAtMs: number
}

export interface BoundaryEpochTable {
  /** Returns false when the epoch is closed, because its counters are then final. */
  put(row: Omit<BoundaryEpochRow, 'closed'>): Promise<boolean>
  get(sandboxId: string, epoch: string): Promise<BoundaryEpochRow | undefined>
  /** Returns false when the epoch was already closed or does not exist. */
  close(sandboxId: string, epoch: string): Promise<boolean>
  /** Returns the open epochs of one sandbox, or of all. */
  open(sandboxId?: string): Promise<readonly BoundaryEpochRow[]>
  removeAll(sandboxId: string): Promise<void>
}
