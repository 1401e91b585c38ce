/** Finds grants for a run. Only approving a prompt creates any, and it creates at most two. */
import type { Clock } from '../../lib/clock.ts'
import type { DecisionRequest } from '../../policy/decision-request.ts'
import { findGrant } from '../../policy/find-grant.ts'
import { checkGrant } from '../../policy/grant.ts'
import { createGrant } from '../../policy/grants.ts'
import type { Store } from '../../store/store.ts'

/** Returns the newest grant that fits the request. The decision checks it again and spends it. */
export function findGrantFor(
  store: Store,
  request: Omit<DecisionRequest, 'grant_id'>,
  nowMs: number,
): Promise<string | undefined> {
  return store.read(async (tables) => {
    for (const { id } of await tables.grants.usable(request.capability, request.operator, nowMs)) {
      const grant = await findGrant(tables, id)
      if (checkGrant(grant, { ...request, grant_id: id }, nowMs) === 'usable') return id
    }
    return undefined
  })
}

export interface Approval {
  readonly operator: string
  readonly runId: string
  readonly providerId: string
  readonly maxIterations: number
  /** The lifetime of the grants: at most the run's time limit. */
  readonly lifetimeMs: number
  /** Also grants one use of `shell.execute` on this command reference. */
  readonly commandRef?: string
}

export interface Approved {
  readonly grantIds: readonly string[]
  readonly receiptIds: readonly string[]
}

/**
 * Creates the grants that a typed prompt approves: for this run alone, one call of the provider per turn, and one
 * command once. Each grant has a receipt.
 */
export async function approvePrompt(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  approval: Approval,
): Promise<Approved> {
  const { operator, runId, providerId, maxIterations, lifetimeMs, commandRef } = approval
  const common = { subject: operator, scope: { run_id: runId }, approved_by: operator }
  const options = { expiresAtMs: clock.nowMs() + lifetimeMs }
  const made = [
    await createGrant(
      store,
      {
        ...common,
        capability: 'model.chat',
        operations: ['chat'],
        target: { ref: providerId },
        max_uses: maxIterations,
        reason: 'approved with the prompt',
      },
      options,
    ),
  ]
  if (commandRef !== undefined) {
    made.push(
      await createGrant(
        store,
        {
          ...common,
          capability: 'shell.execute',
          operations: ['run'],
          target: { ref: commandRef },
          max_uses: 1,
          reason: 'approved with the prompt: --allow-fixture-action',
        },
        options,
      ),
    )
  }
  return {
    grantIds: made.map(({ grant }) => grant.id),
    receiptIds: made.map(({ receipt }) => receipt.id),
  }
}
