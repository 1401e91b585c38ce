/** Grants as a run meets them: it finds those that somebody made, and makes none. Approving a prompt makes two. */
import type { Clock } from '../../lib/clock.ts'
import { checkGrant } from '../../policy/grant.ts'
import { createGrant } from '../../policy/grants.ts'
import { findGrant } from '../../policy/lookup.ts'
import type { DecisionRequest } from '../../policy/request.ts'
import type { Store } from '../../store/store.ts'

/** The newest grant that fits the very request now; the decision checks it again, and spends it. */
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
  /** How long the grants live: no longer than the run may take. */
  readonly lifetimeMs: number
  /** Also one use of `shell.execute` on this command reference. */
  readonly commandRef?: string
}

export interface Approved {
  readonly grantIds: readonly string[]
  readonly receiptIds: readonly string[]
}

/**
 * What an operator who types a prompt approves by it: this run may call this provider as often as it has turns, and
 * run one command once. Each is a grant with a receipt, for this run alone.
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
