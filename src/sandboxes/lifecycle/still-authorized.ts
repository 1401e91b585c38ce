/** What was begun goes on for as long as the grant that allowed it lasts, or another one would allow it now. */
import type { JobId } from '../../lib/ids.ts'
import { currentOwner } from '../../lib/owner.ts'
import type { Capability } from '../../policy/capabilities.ts'
import { findGrant } from '../../policy/find-grant.ts'
import type { Tables } from '../../store/store.ts'
import { commitDecision, evaluateSandbox, requestAbout, sandboxLinks } from './decide-sandbox.ts'
import type { RecordedBegin, SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { Denied, RecheckInput } from './tokens.ts'

/** The grant that a begin names, if it names one. */
export function grantOf({ links }: RecordedBegin): string | undefined {
  return typeof links.grant_id === 'string' ? links.grant_id : undefined
}

/** Neither revoked nor expired. One whose uses are spent still carries what they were spent on. */
export async function carries(tables: Tables, grantId: string, nowMs: number): Promise<boolean> {
  const grant = await findGrant(tables, grantId)
  return grant?.found === 'grant' && !grant.revoked && nowMs < grant.expires_at_ms
}

/** For a stream that is open: whether it may stay so. */
export async function recheck(
  records: SandboxRecords,
  { id, begin, jobId, action }: RecheckInput,
): Promise<Denied | undefined> {
  return requireStillAuthorized(records, await records.sandbox(id), begin, { jobId, action })
}

/** Undefined: it may go on. Otherwise policy has said no, and the receipt of that is written. No use is spent. */
export async function requireStillAuthorized(
  records: SandboxRecords,
  record: SandboxRecord,
  begin: RecordedBegin,
  { jobId, action }: { readonly jobId?: JobId | undefined; readonly action: string },
): Promise<Denied | undefined> {
  const grantId = grantOf(begin)
  if (grantId !== undefined && (await carries(records.tables, grantId, records.nowMs))) return undefined
  const { operator } = begin
  const asks = { capability: begin.capability as Capability, operation: begin.operation }
  const request = requestAbout(record, asks, { operator })
  if ((await evaluateSandbox(records, request)).isAllowed) return undefined
  // Asked with the grant of then, so that the receipt says what became of it.
  const evaluated = await evaluateSandbox(records, { ...request, grantId })
  const settled = await commitDecision(
    records,
    evaluated,
    { links: { ...sandboxLinks(record), ...(jobId && { job_id: jobId }) }, metadata: { action } },
    currentOwner(),
  )
  return settled.effect === 'denied' ? settled : undefined
}
