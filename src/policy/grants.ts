/** Keeping grants: made and revoked with a receipt each, read without one. */
import { CraikError } from '../errors.ts'
import type { GrantRow, Store } from '../store/store.ts'
import type { Grant, GrantTerms } from './grant.ts'
import { createGrantProcedure, type GrantReceipt, revokeGrantProcedure } from './tokens.ts'

/** A grant as it stands now. */
export interface GrantStatus {
  readonly grant: Grant
  /** Null: unlimited. */
  readonly usesLeft: number | null
  readonly state: 'usable' | 'expired' | 'revoked' | 'used_up'
}

/** Expires after eight hours unless told otherwise. */
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

/** Newest first. */
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

/** For showing: without the schema, whose loading would cost more than the command. Decisions check it whole. */
function readGrant({ id, document }: GrantRow): Grant {
  const grant = JSON.parse(document) as Grant
  if (grant.id !== id) throw new CraikError('store_damaged', `grant ${id} cannot be read`)
  return grant
}
