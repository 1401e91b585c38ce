/** Whether the process of a run is gone, also where it cannot be seen from here. */
import { ownerState } from '../../lib/owner.ts'
import type { AgentRecords } from './agent-records.ts'
import { bodyOf } from './receipt-body.ts'
import type { Run } from './run-record.ts'

/** For what a run still does after its time: its command is ended, its call given up, its end written. */
const MARGIN_MS = 15 * 60_000

/** From then on a run cannot be going on, whoever runs it: its time ended before. */
export function goneAtMs(run: Run): number {
  return Date.parse(run.created_at) + run.wall_budget_ms + MARGIN_MS
}

/** `unknown`, such as in another pid namespace, only for as long as the run can last. */
export function runOwnerState(run: Run, nowMs: number): ReturnType<typeof ownerState> {
  const state = ownerState(run.owner)
  return state === 'unknown' && nowMs > goneAtMs(run) ? 'dead' : state
}

/** Ends what a run left open. The log does so for processes that it knows to be dead; here the run's time tells. */
export async function closeOpenReceipts({ tables, sealer }: AgentRecords, run: Run): Promise<void> {
  await sealer.closeDead(tables)
  for (const { id } of await tables.openReceipts.list()) {
    const row = await tables.receipts.get(id)
    const body = row && bodyOf(row.line)
    if (body?.links.run_id !== run.id) continue
    const { kind, operator, capability, operation, target, links } = body
    await sealer.append(tables, {
      kind,
      phase: 'end',
      begin_id: id,
      status: 'indeterminate',
      operator,
      capability,
      links,
      ...(operation !== undefined && { operation }),
      ...(target !== undefined && { target }),
    })
  }
}
