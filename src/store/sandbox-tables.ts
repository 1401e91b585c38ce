/** What the store keeps about sandboxes, the jobs in them, and what their boundaries counted. */
import type { JobId, ReceiptId, SandboxId } from '../lib/ids.ts'
import type { Owner } from '../lib/owner.ts'
import type { SealedTable } from './agent-tables.ts'

export interface SandboxTable extends SealedTable<'name' | 'state' | 'operator'> {
  /**
   * Whether a begin belongs to a sandbox that is there: to an open job, or to a create or delete in progress. What is in the
   * sandbox may go on although the process that began it is dead.
   */
  holds(beginId: string): Promise<boolean>
}

export type SnapshotTable = SealedTable<'name'>

/** Started for nobody yet; none of their ids is that of a sandbox. */
export type WarmInstanceTable = SealedTable<never>

export interface SandboxJobRow {
  readonly sandboxId: SandboxId
  readonly jobId: JobId
  readonly beginId: ReceiptId
  /** JSON: whose it is, and what its end repeats of its begin. */
  readonly document: string
  readonly seal: string
  readonly state: 'open' | 'ended'
  /** Whoever answers for it now; null when what is there was not written by Craik. */
  readonly owner: Owner | null
  /** Another process began it. */
  readonly adopted: boolean
  readonly createdAtMs: number
  /** Whose it is, as the document says; null when it does not. */
  readonly operator: string | null
}

export interface SandboxJobTable {
  /** False when the sandbox has a job of that id. */
  insert(row: Omit<SandboxJobRow, 'operator'>): Promise<boolean>
  get(sandboxId: string, jobId: string): Promise<SandboxJobRow | undefined>
  /** Oldest first. */
  open(sandboxId: string): Promise<readonly SandboxJobRow[]>
  /** Of every sandbox, ended or not, in the order of their ids. */
  scan(
    after: Pick<SandboxJobRow, 'sandboxId' | 'jobId'> | undefined,
    limit: number,
  ): Promise<readonly SandboxJobRow[]>
  /** False when it is not open. */
  end(sandboxId: string, jobId: string): Promise<boolean>
  /** False when there is no such job. */
  update(row: Pick<SandboxJobRow, 'sandboxId' | 'jobId' | 'document' | 'seal'>): Promise<boolean>
  /** False when it is not open. */
  adopt(sandboxId: string, jobId: string, owner: Owner): Promise<boolean>
  /** Of those that ended, all but the `keep` with the greatest ids. The greatest id that was removed. */
  removeOld(sandboxId: string, keep: number): Promise<JobId | undefined>
  removeAll(sandboxId: string): Promise<void>
}

export interface BoundaryEpochRow {
  readonly sandboxId: SandboxId
  readonly epoch: string
  /** JSON of the counts by name. */
  readonly counts: string
  readonly closed: boolean
  readonly updatedAtMs: number
}

export interface BoundaryEpochTable {
  /** False when it is closed: its counts are final. */
  put(row: Omit<BoundaryEpochRow, 'closed'>): Promise<boolean>
  get(sandboxId: string, epoch: string): Promise<BoundaryEpochRow | undefined>
  /** False when it was closed before, or is not there. */
  close(sandboxId: string, epoch: string): Promise<boolean>
  /** Of one sandbox, or of all. */
  open(sandboxId?: string): Promise<readonly BoundaryEpochRow[]>
  removeAll(sandboxId: string): Promise<void>
}
