/** The audit of a session: each check reads the records themselves and reports what it read and whether it passes. */

import { findGrant } from '../../policy/find-grant.ts'
import { checkGrant } from '../../policy/grant.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { ReceiptRow, Tables } from '../../store/store.ts'
import type { Session } from './agent-session.ts'
import { envelopeProblems } from './audit-envelope.ts'
import { grantProblems } from './audit-grants.ts'
import { isAbout, missingOf } from './audit-presence.ts'
import { type AuditSealCheck, sealCheck } from './audit-seals.ts'
import { findRanAfterDenial } from './denied-requests.ts'
import { getSession, type Listed, listHandoffs, listRuns, type RecordDeps } from './read-agent-records.ts'
import { parseReceiptBody } from './receipt-body.ts'
import type { Run } from './run-record.ts'

interface Check {
  readonly name: string
  readonly passed: boolean
  /** The records that the check read. */
  readonly looked_at: string
  /** The problems, with ids. */
  readonly problems: readonly string[]
}

export interface Audit {
  readonly session_id: string
  readonly passed: boolean
  readonly runs: number
  readonly receipts: number
  readonly checks: readonly Check[]
}

/** The most receipts of one session that are checked. Beyond it, the audit reports a problem. */
const MAX_RECEIPTS = 20_000
const MAX_RECORDS = 20_000
const MAX_PROBLEMS = 10

interface AuditInput {
  readonly tables: Tables
  readonly sealProblem: AuditSealCheck
  readonly session: Session
  readonly runs: readonly Run[]
  /** Oldest first. */
  readonly rows: readonly ReceiptRow[]
  /** The bodies of the readable rows. Another check reports the unreadable ones. */
  readonly bodies: readonly Receipt['body'][]
}

export async function auditSession(deps: RecordDeps, sessionId: string): Promise<Audit> {
  // In this order, a run that ends meanwhile counts as unfinished, and not as missing in the session.
  const runs = await listRuns(deps, { session_id: sessionId }, MAX_RECORDS)
  const handoffs = await listHandoffs(deps, { session_id: sessionId }, MAX_RECORDS)
  const session = await getSession(deps, sessionId)
  return deps.store.read(async (tables) => {
    const found = await tables.receipts.find({ sessionId }, MAX_RECEIPTS + 1)
    const rows = found.slice(0, MAX_RECEIPTS).toReversed()
    const bodies = rows.flatMap(({ line }) => parseReceiptBody(line) ?? [])
    const input: AuditInput = {
      tables,
      sealProblem: await sealCheck(deps.home, tables),
      session: session.record,
      runs: runs.flatMap(({ record }) => record ?? []),
      rows,
      bodies,
    }
    const checks = [
      seals([{ id: sessionId, ...session }, ...runs, ...handoffs]),
      await checkLinks(input, found.length > MAX_RECEIPTS),
      await providersExpected(input),
      await commandsGranted(input),
      await denialsRanNothing(input),
      await receiptsGenuine(input),
      await nothingGone(input, runs),
    ]
    return {
      session_id: sessionId,
      passed: checks.every(({ passed }) => passed),
      runs: runs.length,
      receipts: rows.length,
      checks,
    }
  })
}

function seals(all: readonly Listed<unknown>[]): Check {
  return check(
    'the session, its runs and its handoffs are unchanged',
    `${all.length} seals`,
    all.flatMap(({ id, status }) => (status === 'verified' ? [] : [`${id} is ${status}`])),
  )
}

async function nothingGone({ tables, session }: AuditInput, runs: readonly Listed<Run>[]): Promise<Check> {
  const runIds = runs.map(({ id }) => id)
  const { lookedAt, problems } = await missingOf(tables, session.id, runIds)
  return check('no record that the log names is missing', lookedAt, problems)
}

/** Every run must list the environment receipts of its prompt, and so must the session as far back as its list goes. */
async function checkLinks({ session, runs, bodies, tables }: AuditInput, isCut: boolean): Promise<Check> {
  const ofSession = new Set(session.receipt_ids)
  const isWhole = session.receipt_count === session.receipt_ids.length
  const environment = bodies.filter(
    (body) => isEnvironment(body) && body.links.run_id !== undefined && isOver(runs, body.links.run_id),
  )
  // In the log's order, because runs in one millisecond are listed in any order.
  const newest = bodies.findLast((body) => isAbout(body, 'agent.run', 'end'))?.links.run_id
  const problems = isCut ? [`more than ${MAX_RECEIPTS} receipts: the oldest were not checked`] : []
  for (const { id, links } of environment) {
    const run = runs.find((one) => one.id === links.run_id)
    if (!run?.receipt_ids.includes(id)) problems.push(`${id} is not named by ${links.run_id}`)
    else if (!ofSession.has(id) && (isWhole || run.id === newest))
      problems.push(`${id} is not named by the session`)
  }
  for (const id of session.receipt_ids) {
    if ((await tables.receipts.get(id)) === undefined)
      problems.push(`${id} is named by the session, but not in the log`)
  }
  return check(
    'the session names the environment receipts of its prompts',
    `${environment.length} receipts of ${runs.length} run${runs.length === 1 ? '' : 's'}`,
    problems,
  )
}

const ENVIRONMENT = new Set(['provider_action', 'sandbox_action', 'denial'])

/** A denied action on the record itself is not part of a prompt. Others can cause one at any time. */
const isEnvironment = ({ kind, capability }: Receipt['body']): boolean =>
  ENVIRONMENT.has(kind) && !capability.startsWith('agent.')

const isOver = (runs: readonly Run[], id: string): boolean =>
  runs.some((run) => run.id === id && run.ended_at !== null)

/** Another provider needs a failover receipt of the same run. The envelope must be that of the decisions. */
async function providersExpected({ tables, sealProblem, session, bodies }: AuditInput): Promise<Check> {
  const hops = new Set(
    bodies
      .filter(({ capability, status }) => capability === 'provider.failover' && status === 'passed')
      .map(({ links }) => `${links.run_id} ${links.target_id}`),
  )
  const receipts = bodies.filter(({ kind }) => kind === 'provider_action')
  return check(
    `provider receipts are of ${session.provider_id} under ${session.policy_envelope_id}`,
    `${receipts.length} provider receipts, ${hops.size} failover${hops.size === 1 ? '' : 's'}`,
    [
      ...receipts.flatMap(({ id, links }) => [
        ...(links.policy_envelope_id === session.policy_envelope_id
          ? []
          : [`${id} is under ${links.policy_envelope_id ?? 'no envelope'}`]),
        ...(links.provider_id === session.provider_id || hops.has(`${links.run_id} ${links.provider_id}`)
          ? []
          : [`${id} is of ${links.provider_id ?? 'no provider'}`]),
      ]),
      ...(await envelopeProblems(tables, session.policy_envelope_id, bodies, sealProblem)),
    ],
  )
}

/** Looks up each grant, which must fit the command at the time of its decision. */
async function commandsGranted({ tables, sealProblem, rows, bodies }: AuditInput): Promise<Check> {
  const passed = bodies.filter(({ kind, phase, status }) => {
    return kind === 'sandbox_action' && phase === 'end' && status === 'passed'
  })
  const problems = [...(await grantProblems(tables, bodies, sealProblem))]
  for (const { id, begin_id } of passed) {
    const begin = bodies.find((body) => body.id === begin_id)
    const row = rows.find((one) => one.id === begin_id)
    const problem =
      begin === undefined || row === undefined
        ? 'has no begin receipt'
        : await findMissingGrant(tables, begin, row.atMs)
    if (problem !== undefined) problems.push(`${id} ${problem}`)
  }
  return check(
    'every passed command had a usable grant',
    `${passed.length} passed command${passed.length === 1 ? '' : 's'}`,
    problems,
  )
}

async function findMissingGrant(
  tables: Tables,
  { links, capability, operation, operator, decision }: Receipt['body'],
  atMs: number,
): Promise<string | undefined> {
  if (decision?.effect !== 'allow') return 'was not allowed'
  if (links.grant_outcome !== 'usable')
    return `ran with a grant that was ${links.grant_outcome ?? 'not checked'}`
  // An unreadable grant does not count. The check of grants names it.
  const grant = await findGrant(tables, links.grant_id).catch(() => null)
  if (grant?.found !== 'grant') return `names ${links.grant_id ?? 'no grant'}, which does not exist`
  const { session_id, task_id, run_id } = links
  const outcome = checkGrant(
    // Uses and revocation can have changed since the decision.
    { ...grant, uses_left: null, revoked: false },
    {
      operator,
      capability,
      operation: operation ?? '',
      target: links.command_ref ?? '',
      scope: { session_id, task_id, run_id },
      grant_id: links.grant_id,
    },
    atMs,
  )
  return outcome === 'usable' ? undefined : `names ${links.grant_id}, which does not apply: ${outcome}`
}

/** A denial is a single receipt: nothing began or ended with it, and the request did not run after it. */
async function denialsRanNothing({ tables, bodies }: AuditInput): Promise<Check> {
  const denials = bodies.filter(({ kind }) => kind === 'denial')
  const problems: string[] = []
  for (const denial of denials) {
    const end = await tables.receipts.endOf(denial.id)
    if (end !== undefined || denial.phase !== 'point')
      problems.push(`${denial.id} is a denial, but has a begin or end`)
  }
  for (const { denialId, beginId } of findRanAfterDenial(bodies)) {
    problems.push(`${denialId} denied a request that ${beginId} ran`)
  }
  return check(
    'no denied request ran',
    `${denials.length} denial${denials.length === 1 ? '' : 's'}`,
    problems,
  )
}

async function receiptsGenuine({ sealProblem, rows }: AuditInput): Promise<Check> {
  const problems: string[] = []
  for (const row of rows) problems.push(...[(await sealProblem(row)) ?? []].flat())
  return check(
    'every receipt is in the log, sealed and linked to the one before',
    `${rows.length} receipts`,
    problems,
  )
}

function check(name: string, lookedAt: string, problems: readonly string[]): Check {
  const more = problems.length - MAX_PROBLEMS
  return {
    name,
    passed: problems.length === 0,
    looked_at: lookedAt,
    problems: more > 0 ? [...problems.slice(0, MAX_PROBLEMS), `and ${more} more`] : problems,
  }
}
