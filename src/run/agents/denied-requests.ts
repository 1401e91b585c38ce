/** Requests that were denied and ran all the same: what an audit and a handoff's own check look for. */
import type { Receipt } from '../../receipts/schema.ts'

type Body = Receipt['body']

interface RanThoughDenied {
  readonly denialId: string
  readonly beginId: string
}

/**
 * `bodies`: oldest first. One answer may ask for the same command twice, and a grant for one use lets the first run and
 * not the second; but a denial ends its run, so whatever began before it is another request, and nothing begins after.
 */
export function ranAfterDenial(bodies: readonly Body[]): readonly RanThoughDenied[] {
  const denied = new Map<string, string>()
  const ran: RanThoughDenied[] = []
  for (const body of bodies) {
    const request = requestOf(body)
    if (request === undefined) continue
    if (body.kind === 'denial' && !denied.has(request)) denied.set(request, body.id)
    const denialId = denied.get(request)
    if (body.kind === 'sandbox_action' && body.phase === 'begin' && denialId !== undefined) {
      ran.push({ denialId, beginId: body.id })
    }
  }
  return ran
}

/** The answer of the model that asked for it, and the command that it asked for. */
function requestOf({ links }: Body): string | undefined {
  const [cause] = links.receipt_ids ?? []
  return cause === undefined ? undefined : JSON.stringify([cause, links.run_id, links.command_ref])
}
