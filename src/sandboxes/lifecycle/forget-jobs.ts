/** Keeps the newest ended jobs, so that a retry is recognized. An older id is never taken for a new one. */
import { CraikError } from '../../errors.ts'
import type { JobId, SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'

/** More jobs than can start while a client may still retry one of them. */
const KEPT = 4096

export async function forgetJobs(records: SandboxRecords, { id }: { readonly id: SandboxId }): Promise<void> {
  const record = await records.sandbox(id)
  const newest = await records.tables.sandboxJobs.removeOld(id, KEPT)
  if (newest === undefined || isForgotten(record, newest)) return
  await records.put({ ...record, jobs_forgotten_to: newest }, 'update')
}

/** Checks an id that is not on record. Ids start with a time, so the ids of new jobs are greater than old ones. */
export function requireFreshId(record: SandboxRecord, jobId: JobId): void {
  if (!isForgotten(record, jobId)) return
  throw new CraikError(
    'conflict',
    `job ${jobId} may have run before: its id is older than the recorded jobs`,
    {
      hint: 'use another --job-id, or omit it: a job id identifies one request',
    },
  )
}

function isForgotten({ jobs_forgotten_to }: SandboxRecord, jobId: string): boolean {
  return jobs_forgotten_to !== null && jobId <= jobs_forgotten_to
}
