/** A session as one document to hand over: records, events and receipt ids; no prompts, no paths of this machine. */
import type { Json } from '../../lib/canonical-json.ts'
import { getSession, listEvents, listHandoffs, listRuns, type RecordPlace } from './records.ts'

export async function exportSession(
  place: RecordPlace,
  id: string,
): Promise<{ readonly [key: string]: Json }> {
  const { record: session, seal, status } = await getSession(place, id)
  const runs = await listRuns(place, { session_id: id })
  const handoffs = await listHandoffs(place, { session_id: id })
  const { workspace: _, ...shown } = session
  const exported = {
    schema: 'craik.session_export',
    version: '0.1.0',
    session: { ...shown, receipt_hmac: seal },
    hmac_status: status,
    runs: runs
      .toReversed()
      .map(({ record: { owner: __, ...run }, status: hmac_status }) => ({ ...run, hmac_status })),
    events: await listEvents(place, { sessionId: id }),
    handoffs: handoffs.toReversed().map(({ record, status: hmac_status }) => ({ ...record, hmac_status })),
    receipt_ids: session.receipt_ids,
  }
  return exported as unknown as { readonly [key: string]: Json }
}
