/** Creates and revokes grants in a transaction, with one receipt per grant or per group of grants. */
import { hash } from 'node:crypto'
import { z } from 'zod'
import { CraikError } from '../errors.ts'
import { canonicalJson } from '../lib/canonical-json.ts'
import type { Clock } from '../lib/clock.ts'
import { type GrantId, newId } from '../lib/ids.ts'
import type { ReceiptRef, ReceiptWriter } from '../receipts/receipt-writer.ts'
import { redactValue } from '../receipts/redaction/redact.ts'
import type { Receipt } from '../receipts/schema.ts'
import type { Tables } from '../store/store.ts'
import { parseInput, refuseSecrets } from './decision-request.ts'
import { parseGrant } from './find-grant.ts'
import { DEFAULT_LIFETIME_MS, type Grant, type GrantTerms, grantTerms } from './grant.ts'
import { plainJson } from './policy-decision.ts'
import type { CreateGrantInput, GrantReceipt } from './tokens.ts'

/** The longest lifetime of a grant. */
export const MAX_LIFETIME_MS = 366 * 24 * 3600 * 1000

export async function createGrantIn(
  tables: Tables,
  { terms, expiresAtMs }: CreateGrantInput,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<GrantReceipt> {
  const checked = parseInput(grantTerms, terms, 'the grant')
  const { reason: _, ...fixed } = checked
  refuseSecrets(fixed, 'the grant')
  const grant = await insertGrant(tables, checked, expiresAtMs, clock)
  return { grant, receipt: await appendGrantReceipt(tables, grant, 'create', grant.approved_by, receipts) }
}

export async function revokeGrantIn(
  tables: Tables,
  { id, operator }: { readonly id: string; readonly operator: string },
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<GrantReceipt> {
  const row = await tables.grants.get(id)
  if (row === undefined)
    throw new CraikError('not_found', `unknown grant: ${id}`, { hint: 'list grants:  craik grant list' })
  const grant = parseGrant(row)
  if (!(await tables.grants.revoke(id, clock.nowMs()))) {
    throw new CraikError('conflict', `grant ${id} is already revoked`, {
      hint: `show it:  craik grant show ${id}`,
    })
  }
  return { grant, receipt: await appendGrantReceipt(tables, grant, 'revoke', operator, receipts) }
}

/** Grants for several capabilities with their operations, under one receipt. */
export interface GrantBatch {
  readonly terms: Omit<GrantTerms, 'capability' | 'operations' | 'scope'>
  readonly operations: ReadonlyMap<string, string[]>
  readonly expiresAtMs: number
  /** The subject of the grants, as the receipt names it. */
  readonly about: string
}

/** Creates a grant for any scope per capability. Returns the ids by capability. */
export async function createGrants(
  tables: Tables,
  { terms, operations, expiresAtMs, about }: GrantBatch,
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<Readonly<Record<string, string>>> {
  const { reason: _, ...fixed } = terms
  refuseSecrets({ ...fixed, operations: Object.fromEntries(operations) }, 'the grants')
  const grants: Grant[] = []
  for (const [capability, named] of operations) {
    const whole = { ...terms, capability, operations: named, scope: 'any' as const }
    grants.push(await insertGrant(tables, parseInput(grantTerms, whole, 'the grant'), expiresAtMs, clock))
  }
  const { approved_by, subject, max_uses = 1 } = terms
  await appendGrantsReceipt(tables, grants, 'create', { operator: approved_by, about }, receipts, {
    subject,
    max_uses,
    expires_at_ms: expiresAtMs,
  })
  return Object.fromEntries(grants.map(({ capability, id }) => [capability, id]))
}

/** Skips grants that are already revoked, and writes no receipt when all of them are. */
export async function revokeGrants(
  tables: Tables,
  {
    ids,
    operator,
    about,
  }: { readonly ids: readonly string[]; readonly operator: string; readonly about: string },
  receipts: ReceiptWriter,
  clock: Clock,
): Promise<void> {
  const revoked: Grant[] = []
  for (const id of ids) {
    const row = await tables.grants.get(id)
    if (row !== undefined && (await tables.grants.revoke(id, clock.nowMs()))) revoked.push(parseGrant(row))
  }
  if (revoked.length > 0) await appendGrantsReceipt(tables, revoked, 'revoke', { operator, about }, receipts)
}

async function insertGrant(
  tables: Tables,
  { reason, ...terms }: z.infer<typeof grantTerms>,
  expiresAtMs: number | undefined,
  clock: Clock,
): Promise<Grant> {
  const nowMs = clock.nowMs()
  const endsMs = expiresAtMs ?? nowMs + DEFAULT_LIFETIME_MS
  if (!(endsMs > nowMs)) throw new CraikError('usage', 'the expiry of a grant must be in the future')
  if (endsMs > nowMs + MAX_LIFETIME_MS) throw new CraikError('usage', 'a grant can last at most 366 days')
  const grant: Grant = {
    ...terms,
    ...(reason !== undefined && { reason: redactValue(reason).value.slice(0, 500) }),
    id: newId<GrantId>('grant', nowMs),
    expires_at: new Date(endsMs).toISOString(),
    created_at: new Date(nowMs).toISOString(),
  }
  await tables.grants.insert({
    id: grant.id as GrantId,
    capability: grant.capability,
    subject: grant.subject,
    document: canonicalJson(plainJson(grant)),
    usesLeft: grant.max_uses,
    expiresAtMs: endsMs,
    revokedAtMs: null,
    createdAtMs: nowMs,
  })
  return grant
}

function appendGrantReceipt(
  tables: Tables,
  grant: Grant,
  operation: 'create' | 'revoke',
  operator: string,
  receipts: ReceiptWriter,
): Promise<ReceiptRef> {
  return receipts.append(tables, {
    kind: 'grant',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'grant.write',
    operation,
    target: grant.id,
    links: { grant_id: grant.id, ...(grant.scope !== 'any' && grant.scope) },
    digests: { grant: grantDigest(grant) },
    metadata: {
      capability: grant.capability,
      subject: grant.subject,
      operations: grant.operations,
      max_uses: grant.max_uses,
      expires_at_ms: Date.parse(grant.expires_at),
    },
  })
}

/** Lists each grant with its digest as an item. As a member name, a random id could end like the name of a secret. */
function appendGrantsReceipt(
  tables: Tables,
  grants: readonly Grant[],
  operation: 'create' | 'revoke',
  { operator, about }: { readonly operator: string; readonly about: string },
  receipts: ReceiptWriter,
  shared: Readonly<Record<string, string | number | null>> = {},
): Promise<ReceiptRef> {
  return receipts.append(tables, {
    kind: 'grant',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'grant.write',
    operation,
    target: about,
    links: {},
    metadata: {
      ...shared,
      grants: grants.map((grant) => ({
        grant_id: grant.id,
        capability: grant.capability,
        operations: grant.operations,
        digest: grantDigest(grant),
      })),
    },
  })
}

/** Returns a digest of a grant's terms. The free-text reason stays out of the digest and of the receipt. */
export function grantDigest({ reason: _, ...terms }: Grant): string {
  return `sha256:${hash('sha256', canonicalJson(plainJson(terms)))}`
}

/** Returns the digest that a receipt of several grants records for one of them. */
export function digestAmong(metadata: Receipt['body']['metadata'], id: string): string | undefined {
  const found = grantList.safeParse(metadata?.grants)
  return found.data?.find(({ grant_id }) => grant_id === id)?.digest
}

const grantList = z.array(z.object({ grant_id: z.string(), digest: z.string() }))
