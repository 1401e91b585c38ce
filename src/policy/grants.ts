/** The store of grants: creating and revoking one writes a receipt, reading does not. */
import { CraikError } from '../errors.ts'
import type { GrantRow, Store } from '../store/store.ts'
import type { Grant, GrantTerms } from './grant.ts'
import { createGrantProcedure, type GrantReceipt, revokeGrantProcedure } from './tokens.ts'

/** The current state of a grant. */
export interface GrantStatus {
  readonly grant: Grant
  /** Null when the number of uses is unlimited. */
  readonly usesLeft: number | null
  readonly state: 'usable' | 'expired' | 'revoked' | 'used_up'
}

/** Creates a grant, which expires after eight hours by default. */
export function createGrant(
  store: Store,
  terms: GrantTerms,
  options: { readonly expiresAtMs?: number } = {},
): Promise<GrantReceipt> {
  return store.write(createGrantProcedure, { terms, ...options })
}

export function revokeGrant(store: Store, id: string, operator: string): Promise<GrantReceipt> {
  return store.write(revokeGrantProcedure, { id, operator })
}

/** Returns the grants, newest first. */
export function listGrants(store: Store, nowMs: number, limit = 1000): Promise<readonly GrantStatus[]> {
  return store.read(async (tables) => (await tables.grants.list(limit)).map((row) => statusOf(row, nowMs)))
}

export async function getGrant(store: Store, id: string, nowMs: number): Promise<GrantStatus> {
  const row = await store.read((tables) => tables.grants.get(id))
  if (row === undefined)
    throw new CraikError('not_found', `unknown grant: ${id}`, { hint: 'list grants:  craik grant list' })
  return statusOf(row, nowMs)
}

function statusOf(row: GrantRow, nowMs: number): GrantStatus {
  const grant = readGrant(row)
  const state =
    row.revokedAtMs !== null
      ? 'revoked'
      : nowMs >= Date.parse(grant.expires_at)
        ? 'expired'
        : row.usesLeft === 0
          ? 'used_up'
          : 'usable'
  return { grant, usesLeft: row.usesLeft, state }
}

/**
 * Parses a grant for display without the schema, which takes longer to load than the command runs. Decisions check the
 * whole grant.
 */
function readGrant({ id, document }: GrantRow): Grant {
  const grant = JSON.parse(document) as Grant
  if (grant.id !== id) throw new CraikError('store_damaged', `grant ${id} cannot be read`)
  return grant
}
