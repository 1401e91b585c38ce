/** Recovers the jobs of dead processes: takes over those that the sandbox still has, and ends the others. */
import type { JobId, SandboxId } from '../../lib/ids.ts'
import { type Owner, ownerState, sameOwner } from '../../lib/owner.ts'
import type { RecordedJob, SandboxRecords } from './sandbox-records.ts'
import type { CloseOrphansInput, OpenJob } from './tokens.ts'

export async function adoptJobs(
  records: SandboxRecords,
  { id, jobIds, owner }: { readonly id: SandboxId; readonly jobIds: readonly JobId[]; readonly owner: Owner },
): Promise<readonly OpenJob[]> {
  const wanted = new Set<string>(jobIds)
  const adopted: OpenJob[] = []
  for (const { row, job } of await records.openJobs(id)) {
    if (!wanted.has(row.jobId) || row.owner === null || !isFree(row.owner, owner)) continue
    if (!sameOwner(row.owner, owner)) await records.tables.sandboxJobs.adopt(id, row.jobId, owner)
    adopted.push(openJob({ row, job }, row.owner))
  }
  return adopted
}

/**
 * Ends open jobs that are not in `keep`. Only the process that manages a sandbox can query it. So this ends only the
 * jobs of dead owners, of owners in another home, and of the caller itself.
 */
export async function closeOrphans(
  records: SandboxRecords,
  { id, keep, owner, elsewhere = [] }: CloseOrphansInput,
): Promise<readonly JobId[]> {
  const isLeft = (of: Owner) => isFree(of, owner) || elsewhere.some((one) => sameOwner(one, of))
  const stored = new Set<string>(keep)
  const closed: JobId[] = []
  for (const { row, job } of await records.openJobs(id)) {
    if (stored.has(row.jobId) || row.owner === null || !isLeft(row.owner)) continue
    const adopted = row.adopted || !sameOwner(row.owner, owner)
    await records.endJob({ row: { ...row, adopted }, job }, { status: 'indeterminate' })
    closed.push(row.jobId)
  }
  return closed
}

function openJob({ row, job }: RecordedJob, owner: Owner): OpenJob {
  const { jobId, beginId } = row
  const { operation, operator, epoch, begin, endsWhenLeftMs } = job
  return {
    jobId,
    operation,
    operator,
    owner,
    begun: { id: beginId, begin, epoch },
    ...(endsWhenLeftMs !== undefined && { endsWhenLeftMs }),
  }
}

/** Returns whether the owner is dead or is the caller itself. */
export function isFree(of: Owner, mine: Owner): boolean {
  return sameOwner(of, mine) || ownerState(of) === 'dead'
}
