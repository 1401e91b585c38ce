/** An operation may continue while the grant that allowed it is valid, or while another grant would allow it now. */
import type { JobId } from '../../lib/ids.ts'
import { currentOwner } from '../../lib/owner.ts'
import type { Capability } from '../../policy/capabilities.ts'
import { findGrant } from '../../policy/find-grant.ts'
import type { Tables } from '../../store/store.ts'
import { commitDecision, evaluateSandbox, requestAbout, sandboxLinks } from './decide-sandbox.ts'
import type { RecordedBegin, SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'
import type { Denied, RecheckInput } from './tokens.ts'

/** Returns the grant that a begin receipt names, if any. */
export function grantOf({ links }: RecordedBegin): string | undefined {
  return typeof links.grant_id === 'string' ? links.grant_id : undefined
}

/**
 * Returns whether a grant is neither revoked nor expired. A grant without uses left still authorizes what they were
 * spent on.
 */
export async function isGrantValid(tables: Tables, grantId: string, nowMs: number): Promise<boolean> {
  const grant = await findGrant(tables, grantId)
  return grant?.found === 'grant' && !grant.revoked && nowMs < grant.expires_at_ms
}

/** Checks whether an open stream may stay open. */
export async function recheck(
  records: SandboxRecords,
  { id, begin, jobId, action }: RecheckInput,
): Promise<Denied | undefined> {
  return requireStillAuthorized(records, await records.sandbox(id), begin, { jobId, action })
}

/**
 * Returns `undefined` when the operation may continue. Otherwise policy denied it, and the receipt of the denial is
 * written. It spends no use of a grant.
 */
export async function requireStillAuthorized(
  records: SandboxRecords,
  record: SandboxRecord,
  begin: RecordedBegin,
  { jobId, action }: { readonly jobId?: JobId | undefined; readonly action: string },
): Promise<Denied | undefined> {
  const grantId = grantOf(begin)
  if (grantId !== undefined && (await isGrantValid(records.tables, grantId, records.nowMs))) return undefined
  const { operator } = begin
  const asks = { capability: begin.capability as Capability, operation: begin.operation }
  const request = requestAbout(record, asks, { operator })
  if ((await evaluateSandbox(records, request)).isAllowed) return undefined
  // Evaluates the request with the original grant, so that the receipt says what became of it.
  const evaluated = await evaluateSandbox(records, { ...request, grantId })
  const settled = await commitDecision(
    records,
    evaluated,
    { links: { ...sandboxLinks(record), ...(jobId && { job_id: jobId }) }, metadata: { action } },
    currentOwner(),
  )
  return settled.effect === 'denied' ? settled : undefined
}
