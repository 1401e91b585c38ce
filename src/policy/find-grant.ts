/** Looks up the inputs of a decision in the store. Nothing is derived from an id alone. */
import { CraikError } from '../errors.ts'
import { memoizeByRow } from '../store/memoize-by-row.ts'
import type { EnvelopeRow, GrantRow, Tables } from '../store/store.ts'
import type { DecisionRequest } from './decision-request.ts'
import { parseEnvelope } from './envelope.ts'
import { type DecisionInput, type EnvelopeFacts, factsOfEnvelope } from './evaluate.ts'
import { checkGrant, type FoundGrant, type Grant, grantSchema, looksLikeReceipt } from './grant.ts'

export async function findEnvelope(tables: Tables, id: string | undefined): Promise<EnvelopeFacts | null> {
  const row = id === undefined ? undefined : await tables.envelopes.get(id)
  return row === undefined ? null : envelopeFactsOf(row)
}

const envelopeFactsOf = memoizeByRow((row: EnvelopeRow) =>
  factsOfEnvelope(parseEnvelope(row.id, row.document)),
)

export async function findGrant(tables: Tables, id: string | undefined): Promise<FoundGrant | null> {
  if (id === undefined) return null
  if (looksLikeReceipt(id)) return { found: 'receipt', id }
  const row = await tables.grants.get(id)
  if (row !== undefined) return grantFactsOf(row)
  return { found: (await tables.receipts.get(id)) === undefined ? 'nothing' : 'receipt', id }
}

/** Returns the grant named first, or else the newest grant that fits the request. The decision checks it again. */
export async function usableGrant(
  tables: Tables,
  request: Omit<DecisionRequest, 'grant_id'>,
  nowMs: number,
  first?: string,
): Promise<string | undefined> {
  const fits = async (id: string) =>
    checkGrant(await findGrant(tables, id), { ...request, grant_id: id }, nowMs) === 'usable'
  if (first !== undefined && (await fits(first))) return first
  for (const { id } of await tables.grants.usable(request.capability, request.operator, nowMs)) {
    if (await fits(id)) return id
  }
  return undefined
}

/** The transaction that decides also writes the receipt and redacts it, so both controls are present. */
export function gatherCandidates(
  request: DecisionRequest,
  envelope: EnvelopeFacts | null,
  grant: FoundGrant | null,
  nowMs: number,
): DecisionInput {
  const controls = { receipt: true, redaction: true }
  return { schema: 'craik.policy_decision/1', request, envelope, grant, controls, now_ms: nowMs }
}

export function parseGrant(row: GrantRow): Grant {
  const parsed = grantSchema.safeParse(JSON.parse(row.document))
  if (parsed.success && parsed.data.id === row.id) return parsed.data
  throw new CraikError('store_damaged', `grant ${row.id} cannot be read`)
}

const grantFactsOf = memoizeByRow((row: GrantRow): FoundGrant => {
  const { id, capability, subject, scope, target, operations, expires_at } = parseGrant(row)
  return {
    found: 'grant',
    id,
    capability,
    subject,
    scope,
    target,
    operations,
    expires_at_ms: Date.parse(expires_at),
    uses_left: row.usesLeft,
    revoked: row.revokedAtMs !== null,
  }
})
