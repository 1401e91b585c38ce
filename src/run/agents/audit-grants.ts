/** Checks that the grants of a session are unchanged since their creation and were not used more often than allowed. */

import { parseGrant } from '../../policy/find-grant.ts'
import type { Grant } from '../../policy/grant.ts'
import { digestAmong, grantDigest } from '../../policy/grant-procedures.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { ReceiptFilter, Tables } from '../../store/store.ts'
import { MAX_PAGED, scanReceipts } from './audit-pages.ts'
import type { AuditSealCheck } from './audit-seals.ts'
import { parseReceiptBody } from './receipt-body.ts'

type Body = Receipt['body']

/** The clock can be set back a little between the creation of a grant and the sealing of its receipt. */
const CLOCK_STEP_MS = 60_000

/** A grant without a row is found at the command that names it. */
export async function grantProblems(
  tables: Tables,
  bodies: readonly Body[],
  sealProblem: AuditSealCheck,
): Promise<readonly string[]> {
  const used = new Set(bodies.filter(isUse).map(({ links }) => links.grant_id ?? ''))
  const problems: string[] = []
  for (const id of used) {
    const row = await tables.grants.get(id)
    if (row === undefined) continue
    const grant = readable(() => parseGrant(row))
    if (grant === undefined) {
      problems.push(`cannot read ${id}`)
      continue
    }
    const found = (await originProblem(tables, grant, sealProblem)) ?? (await overuse(tables, grant))
    if (found !== undefined) problems.push(found)
  }
  return problems
}

/** An attacker who can write rows can add a grant, but not the receipt of its creation. */
async function originProblem(
  tables: Tables,
  grant: Grant,
  sealProblem: AuditSealCheck,
): Promise<string | undefined> {
  for await (const row of scanReceipts(tables, { ...filterOf(grant), kind: 'grant' })) {
    if (row === undefined) return `no receipt of the creation of ${grant.id} among the last ${MAX_PAGED}`
    const body = row.line.includes(grant.id) ? parseReceiptBody(row.line) : undefined
    const made = body && digestAtMaking(body, grant.id)
    if (made === undefined) continue
    const problem = await sealProblem(row)
    if (problem !== undefined) return `the receipt that created ${grant.id}: ${problem}`
    return made === grantDigest(grant) ? undefined : `${grant.id} differs from its receipt ${row.id}`
  }
  return `no receipt of the creation of ${grant.id}`
}

/**
 * Returns the digest that a receipt records for a grant, created alone or in a group. Returns `undefined` for a receipt
 * of other grants.
 */
function digestAtMaking(body: Body, id: string): string | undefined {
  const { kind, capability, operation, status, target, links, digests, metadata } = body
  const isMaking =
    kind === 'grant' && capability === 'grant.write' && operation === 'create' && status === 'passed'
  if (!isMaking) return undefined
  if (links.grant_id === undefined) return digestAmong(metadata, id)
  return target === id && links.grant_id === id ? (digests?.grant ?? '') : undefined
}

async function overuse(tables: Tables, grant: Grant): Promise<string | undefined> {
  if (grant.max_uses === null) return undefined
  let uses = 0
  for await (const row of scanReceipts(tables, filterOf(grant))) {
    if (row === undefined) return `cannot count the uses of ${grant.id}: they are too far back in the log`
    const body = row.phase === 'begin' && row.line.includes(grant.id) ? parseReceiptBody(row.line) : undefined
    if (body !== undefined && isUse(body) && body.links.grant_id === grant.id) uses++
  }
  return uses > grant.max_uses
    ? `${grant.id} was used ${uses} times, but allows ${grant.max_uses}`
    : undefined
}

const isUse = ({ phase, links, decision }: Body): boolean =>
  phase === 'begin' && links.grant_outcome === 'usable' && decision?.effect === 'allow'

/** Selects the receipts of a grant's creation and uses: they have its scope and are not older. */
function filterOf({ scope, created_at }: Grant): ReceiptFilter {
  const sinceMs = Date.parse(created_at) - CLOCK_STEP_MS
  if (scope === 'any') return { sinceMs }
  const { session_id, task_id, run_id } = scope
  return {
    sinceMs,
    ...(session_id !== undefined && { sessionId: session_id }),
    ...(task_id !== undefined && { taskId: task_id }),
    ...(run_id !== undefined && { runId: run_id }),
  }
}

function readable<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
