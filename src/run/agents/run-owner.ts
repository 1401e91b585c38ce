/** Decides whether the process of a run is dead, even if it is not visible here. */
import { ownerState } from '../../lib/owner.ts'
import type { AgentRecords } from './agent-records.ts'
import { parseReceiptBody } from './receipt-body.ts'
import type { Run } from './run-record.ts'

/** The time for a run's last steps: stop its command, cancel its call, write its end. */
const MARGIN_MS = 15 * 60_000

/** Returns the time after which the run cannot be running in any process, because its time limit has passed. */
export function deadlineMs(run: Run): number {
  return Date.parse(run.created_at) + run.wall_budget_ms + MARGIN_MS
}

/** Returns `unknown`, such as for another pid namespace, only until the run's deadline. */
export function runOwnerState(run: Run, nowMs: number): ReturnType<typeof ownerState> {
  const state = ownerState(run.owner)
  return state === 'unknown' && nowMs > deadlineMs(run) ? 'dead' : state
}

/**
 * Ends the open receipts of a run. The log does that for processes that it knows to be dead. Here the run's deadline
 * decides.
 */
export async function closeOpenReceipts({ tables, sealer }: AgentRecords, run: Run): Promise<void> {
  await sealer.closeDead(tables)
  for (const { id } of await tables.openReceipts.list()) {
    const row = await tables.receipts.get(id)
    const body = row && parseReceiptBody(row.line)
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
