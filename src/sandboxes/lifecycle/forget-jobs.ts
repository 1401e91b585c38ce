/** Of jobs that ended the newest are kept, so that a retry is known; an older id is never taken for a new one. */
import { CraikError } from '../../errors.ts'
import type { JobId, SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'

/** More than begin while anybody could still ask for one of them again. */
const KEPT = 4096

export async function forgetJobs(records: SandboxRecords, { id }: { readonly id: SandboxId }): Promise<void> {
  const record = await records.sandbox(id)
  const newest = await records.tables.sandboxJobs.removeOld(id, KEPT)
  if (newest === undefined || isForgotten(record, newest)) return
  await records.put({ ...record, jobs_forgotten_to: newest }, 'update')
}

/** For an id that is not on record. Ids begin with a time, so that those of new jobs are greater than old ones. */
export function requireFreshId(record: SandboxRecord, jobId: JobId): void {
  if (!isForgotten(record, jobId)) return
  throw new CraikError(
    'conflict',
    `job ${jobId} may have run before: its id is older than the recorded jobs`,
    {
      hint: 'omit the id or choose a new one: an id identifies one request',
    },
  )
}

function isForgotten({ jobs_forgotten_to }: SandboxRecord, jobId: string): boolean {
  return jobs_forgotten_to !== null && jobId <= jobs_forgotten_to
}
