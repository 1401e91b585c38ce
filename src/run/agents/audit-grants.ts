/** Whether the grants that a session used are those that were made, and were used no more often than they allow. */
import type { Grant } from '../../policy/grant.ts'
import { digestAmong, grantDigest } from '../../policy/grant-procedures.ts'
import { parseGrant } from '../../policy/lookup.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { ReceiptFilter, Tables } from '../../store/store.ts'
import { MAX_PAGED, pagedReceipts } from './audit-pages.ts'
import type { AuditSealCheck } from './audit-seals.ts'
import { bodyOf } from './receipt-body.ts'

type Body = Receipt['body']

/** The clock may be set back a little between making a grant and sealing its receipt. */
const CLOCK_STEP_MS = 60_000

/** A grant without a row is found where the command that names it is looked at. */
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

/** Whoever can write rows can write a grant, but not the receipt of its making. */
async function originProblem(
  tables: Tables,
  grant: Grant,
  sealProblem: AuditSealCheck,
): Promise<string | undefined> {
  for await (const row of pagedReceipts(tables, { ...placeOf(grant), kind: 'grant' })) {
    if (row === undefined) return `no receipt of the creation of ${grant.id} among the last ${MAX_PAGED}`
    const body = row.line.includes(grant.id) ? bodyOf(row.line) : undefined
    const made = body && digestAtMaking(body, grant.id)
    if (made === undefined) continue
    const problem = await sealProblem(row)
    if (problem !== undefined) return `the receipt that created ${grant.id}: ${problem}`
    return made === grantDigest(grant) ? undefined : `${grant.id} differs from its receipt ${row.id}`
  }
  return `no receipt of the creation of ${grant.id}`
}

/** As its receipt pins it: made alone, or under its id among those that were made together. Undefined: another one's. */
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
  for await (const row of pagedReceipts(tables, placeOf(grant))) {
    if (row === undefined) return `cannot count the uses of ${grant.id}: they are too far back in the log`
    const body = row.phase === 'begin' && row.line.includes(grant.id) ? bodyOf(row.line) : undefined
    if (body !== undefined && isUse(body) && body.links.grant_id === grant.id) uses++
  }
  return uses > grant.max_uses
    ? `${grant.id} was used ${uses} times, but allows ${grant.max_uses}`
    : undefined
}

const isUse = ({ phase, links, decision }: Body): boolean =>
  phase === 'begin' && links.grant_outcome === 'usable' && decision?.effect === 'allow'

/** Where in the log its making and its uses are: they carry its scope, and are not from before it. */
function placeOf({ scope, created_at }: Grant): ReceiptFilter {
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
