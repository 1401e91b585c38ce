/** The grants around a sandbox: those that its operator has of it, and finding one that fits. */
import { checkGrant } from '../../policy/grant.ts'
import { findGrant } from '../../policy/lookup.ts'
import { createGrant, revokeGrant } from '../../policy/procedures.ts'
import type { DecisionRequest } from '../../policy/request.ts'
import { OPERATIONS } from '../operations.ts'
import type { SandboxKeeper } from './sandbox-keeper.ts'
import type { SandboxRecord } from './sandbox-record.ts'

/** The longest that a grant may last. */
const OWNER_GRANT_MS = 366 * 24 * 3600 * 1000

/** What a request to create names as its target. */
export function createTarget(name: string | undefined): string {
  return `sandbox/${name ?? 'new'}`
}

/** Whoever creates a sandbox may use it: a grant per capability, for this sandbox alone, revoked with it. */
export async function grantToOwner(
  { tables, sealer, clock, nowMs }: SandboxKeeper,
  { id, operator }: Pick<SandboxRecord, 'id' | 'operator'>,
): Promise<Readonly<Record<string, string>>> {
  const grants: Record<string, string> = {}
  for (const [capability, operations] of operationsByCapability()) {
    const terms = {
      capability,
      operations,
      subject: operator,
      scope: 'any' as const,
      target: { ref: `sandbox/${id}` },
      max_uses: null,
      reason: 'came with the sandbox',
      approved_by: operator,
    }
    const { grant } = await createGrant(tables, { terms, expiresAtMs: nowMs + OWNER_GRANT_MS }, sealer, clock)
    grants[capability] = grant.id
  }
  return grants
}

/** Those that somebody revoked before stay as they are. */
export async function revokeOwnerGrants(
  { tables, sealer, clock }: SandboxKeeper,
  { owner_grants }: Pick<SandboxRecord, 'owner_grants'>,
  operator: string,
): Promise<void> {
  for (const id of Object.values(owner_grants)) {
    const row = await tables.grants.get(id)
    if (row !== undefined && row.revokedAtMs === null)
      await revokeGrant(tables, { id, operator }, sealer, clock)
  }
}

/** The one that came with the sandbox, or else the newest that fits the very request; the decision checks it again. */
export async function usableGrant(
  { tables, nowMs }: SandboxKeeper,
  request: Omit<DecisionRequest, 'grant_id'>,
  own: string | undefined,
): Promise<string | undefined> {
  const fits = async (id: string) =>
    checkGrant(await findGrant(tables, id), { ...request, grant_id: id }, nowMs) === 'usable'
  if (own !== undefined && (await fits(own))) return own
  for (const { id } of await tables.grants.usable(request.capability, request.operator, nowMs)) {
    if (await fits(id)) return id
  }
  return undefined
}

/** All but creating, which comes before there is a sandbox to name. */
function operationsByCapability(): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const { capability, operation } of Object.values(OPERATIONS)) {
    if (capability === OPERATIONS.create.capability) continue
    found.set(capability, [...(found.get(capability) ?? []), operation])
  }
  return found
}
