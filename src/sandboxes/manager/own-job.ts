/** Whose a job is: only who began it reads, feeds and ends it, for as long as a grant carries it. */
import type { JobId } from '../../lib/ids.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import { carries, grantOf } from '../lifecycle/still-authorized.ts'
import { requireJobOwner } from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { OpenJobEntry } from './job-book.ts'
import type { ManagerOptions } from './manager-options.ts'

/**
 * The entry of an open job, undefined for one that has ended, `unknown` for one that nobody ever began. Throws, with
 * a denial receipt, when it is somebody else's or nothing allows it any more.
 */
export async function ownJob(
  { store, clock }: ManagerOptions,
  active: ActiveSandbox,
  caller: ManagerCaller,
  jobId: JobId,
  action: string,
): Promise<OpenJobEntry | undefined | 'unknown'> {
  const { id } = active.session
  const entry = active.book.get(jobId)
  const grantId = entry?.operator === caller.operator ? grantOf(entry.begun.begin) : undefined
  if (grantId !== undefined) {
    if (await store.read((tables) => carries(tables, grantId, clock.nowMs()))) return entry
  }
  if ((await store.read((tables) => tables.sandboxJobs.get(id, jobId))) === undefined) return 'unknown'
  const denied = await store.write(requireJobOwner, { id, jobId, operator: caller.operator, action })
  if (denied !== undefined) throw deniedOperationError(denied)
  return entry
}
