/** The grants that come with a sandbox: those of its operator, and those of the programs in it. */
import { createGrantIn, createGrants, MAX_LIFETIME_MS, revokeGrants } from '../../policy/grant-procedures.ts'
import { OPERATIONS } from '../operations.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { SandboxRecords } from './sandbox-records.ts'

/** Returns the target of a request to create a sandbox. */
export function createTarget(name: string | undefined): string {
  return `sandbox/${name ?? 'new'}`
}

/**
 * Grants the operator who creates a sandbox its use: one grant per capability, for this sandbox only, revoked with it.
 */
export async function grantToOwner(
  { tables, sealer, clock, nowMs }: SandboxRecords,
  { id, operator, spec }: Pick<SandboxRecord, 'id' | 'operator' | 'spec'>,
): Promise<Readonly<Record<string, string>>> {
  const about = `sandbox/${id}`
  const expiresAtMs = nowMs + MAX_LIFETIME_MS
  const terms = {
    subject: operator,
    target: { ref: about },
    max_uses: null,
    reason: 'came with the sandbox',
    approved_by: operator,
  }
  const operations = operationsByCapability()
  const grants = { ...(await createGrants(tables, { terms, operations, expiresAtMs, about }, sealer, clock)) }
  if (spec.credentials === 'none') return grants
  for (const [name, login] of Object.entries(loginTerms(id, operator)))
    grants[name] = (await createGrantIn(tables, { terms: login, expiresAtMs }, sealer, clock)).grant.id
  return grants
}

/**
 * Returns the grants for a sandbox with its operator's logins. Only programs in this sandbox may use them, through the
 * gateway.
 */
function loginTerms(id: string, operator: string) {
  const terms = {
    subject: operator,
    scope: { sandbox_id: id },
    target: {},
    max_uses: null,
    reason: 'came with the sandbox and its logins',
    approved_by: operator,
  }
  return {
    'model.chat': { capability: 'model.chat' as const, operations: ['chat'], ...terms },
    'login.use/github': {
      capability: 'login.use' as const,
      operations: ['git_read', 'git_write', 'api'],
      ...terms,
    },
  }
}

/** Grants that were already revoked stay unchanged. */
export async function revokeOwnerGrants(
  { tables, sealer, clock }: SandboxRecords,
  { id, owner_grants }: Pick<SandboxRecord, 'id' | 'owner_grants'>,
  operator: string,
): Promise<void> {
  const ids = Object.values(owner_grants)
  await revokeGrants(tables, { ids, operator, about: `sandbox/${id}` }, sealer, clock)
}

/** Returns all operations except creating, because a creation has no sandbox to name yet. */
function operationsByCapability(): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const { capability, operation } of Object.values(OPERATIONS)) {
    if (capability === OPERATIONS.create.capability) continue
    found.set(capability, [...(found.get(capability) ?? []), operation])
  }
  return found
}
