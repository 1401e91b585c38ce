/** Exports a session as one document: records, events and receipt ids, without prompts or host paths. */
import type { Json } from '../../lib/canonical-json.ts'
import { getSession, listEvents, listHandoffs, listRuns, type RecordDeps } from './read-agent-records.ts'
import type { Run } from './run-record.ts'

export async function exportSession(deps: RecordDeps, id: string): Promise<{ readonly [key: string]: Json }> {
  const { record: session, seal, status } = await getSession(deps, id)
  const runs = await listRuns(deps, { session_id: id })
  const handoffs = await listHandoffs(deps, { session_id: id })
  const { workspace: _, ...shown } = session
  const exported = {
    schema: 'craik.session_export',
    version: '0.1.0',
    session: { ...shown, receipt_hmac: seal },
    hmac_status: status,
    runs: runs
      .toReversed()
      .map(({ id: runId, record, status: hmac_status }) => ({ ...withoutOwner(record, runId), hmac_status })),
    events: await listEvents(deps, { sessionId: id }),
    handoffs: handoffs
      .toReversed()
      .map(({ id: handoffId, record, status: hmac_status }) => ({ id: handoffId, ...record, hmac_status })),
    receipt_ids: session.receipt_ids,
  }
  return exported as unknown as { readonly [key: string]: Json }
}

/** Returns the run without its owner, or only its id when it is unreadable. */
function withoutOwner(run: Run | undefined, id: string): Partial<Run> {
  if (run === undefined) return { id }
  const { owner: _, ...shown } = run
  return shown
}
