/** Only the operator who began a job may read it, send it input and end it, and only while a grant authorizes it. */
import type { JobId } from '../../lib/ids.ts'
import { deniedOperationError } from '../lifecycle/denied-operation.ts'
import { grantOf, isGrantValid } from '../lifecycle/still-authorized.ts'
import { requireJobOwner } from '../lifecycle/tokens.ts'
import type { ManagerCaller } from '../manager-types.ts'
import type { ActiveSandbox } from './active-sandbox.ts'
import type { OpenJobEntry } from './job-book.ts'
import type { ManagerOptions } from './manager-options.ts'

/**
 * Returns the entry of an open job, `undefined` for a job that has ended, and `unknown` for one that never began.
 * Throws, with a denial receipt, when the job belongs to another operator or no grant allows it.
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
    if (await store.read((tables) => isGrantValid(tables, grantId, clock.nowMs()))) return entry
  }
  if ((await store.read((tables) => tables.sandboxJobs.get(id, jobId))) === undefined) return 'unknown'
  const denied = await store.write(requireJobOwner, { id, jobId, operator: caller.operator, action })
  if (denied !== undefined) throw deniedOperationError(denied)
  return entry
}
