/** Finds denied requests that still ran, for the audit and the handoff's own check. */
import type { Receipt } from '../../receipts/schema.ts'

type Body = Receipt['body']

interface RanThoughDenied {
  readonly denialId: string
  readonly beginId: string
}

/**
 * `bodies` is oldest first. One answer can request the same command twice, and a grant for one use allows only the
 * first. A denial ends its run: an earlier begin belongs to another request, and nothing begins later.
 */
export function findRanAfterDenial(bodies: readonly Body[]): readonly RanThoughDenied[] {
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

/** Identifies a request: the model's answer that made it, the run and the command. */
function requestOf({ links }: Body): string | undefined {
  const [cause] = links.receipt_ids ?? []
  return cause === undefined ? undefined : JSON.stringify([cause, links.run_id, links.command_ref])
}
