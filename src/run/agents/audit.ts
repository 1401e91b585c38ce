/** An operator's checks of a session, each made on the records themselves: what was looked at, and whether it holds. */

import { checkGrant } from '../../policy/grant.ts'
import { findGrant } from '../../policy/lookup.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { ReceiptRow, Tables } from '../../store/store.ts'
import { envelopeProblems } from './audit-envelope.ts'
import { grantProblems } from './audit-grants.ts'
import { isAbout, missingOf } from './audit-presence.ts'
import { type AuditSealCheck, sealCheck } from './audit-seals.ts'
import { ranAfterDenial } from './denied-requests.ts'
import { bodyOf } from './receipt-body.ts'
import { getSession, type Listed, listHandoffs, listRuns, type RecordDeps } from './records.ts'
import type { Run } from './run-record.ts'
import type { Session } from './session.ts'

interface Check {
  readonly name: string
  readonly passed: boolean
  /** What was looked at. */
  readonly looked_at: string
  /** What does not hold, with the ids. */
  readonly problems: readonly string[]
}

export interface Audit {
  readonly session_id: string
  readonly passed: boolean
  readonly runs: number
  readonly receipts: number
  readonly checks: readonly Check[]
}

/** More receipts than this of one session are not looked at, and the audit says so. */
const MAX_RECEIPTS = 20_000
const MAX_RECORDS = 20_000
const MAX_PROBLEMS = 10

interface Evidence {
  readonly tables: Tables
  readonly sealProblem: AuditSealCheck
  readonly session: Session
  readonly runs: readonly Run[]
  /** Oldest first. */
  readonly rows: readonly ReceiptRow[]
  /** Of those that still say something; the others are found as changed. */
  readonly bodies: readonly Receipt['body'][]
}

export async function auditSession(place: RecordDeps, sessionId: string): Promise<Audit> {
  // In this order: a run that ends meanwhile is then one that is not over yet, and not one that the session forgot.
  const runs = await listRuns(place, { session_id: sessionId }, MAX_RECORDS)
  const handoffs = await listHandoffs(place, { session_id: sessionId }, MAX_RECORDS)
  const session = await getSession(place, sessionId)
  return place.store.read(async (tables) => {
    const found = await tables.receipts.find({ sessionId }, MAX_RECEIPTS + 1)
    const rows = found.slice(0, MAX_RECEIPTS).toReversed()
    const bodies = rows.flatMap(({ line }) => bodyOf(line) ?? [])
    const evidence: Evidence = {
      tables,
      sealProblem: await sealCheck(place.home, tables),
      session: session.record,
      runs: runs.flatMap(({ record }) => record ?? []),
      rows,
      bodies,
    }
    const checks = [
      seals([{ id: sessionId, ...session }, ...runs, ...handoffs]),
      await linked(evidence, found.length > MAX_RECEIPTS),
      await providersExpected(evidence),
      await commandsGranted(evidence),
      await denialsRanNothing(evidence),
      await receiptsGenuine(evidence),
      await nothingGone(evidence, runs),
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

async function nothingGone({ tables, session }: Evidence, runs: readonly Listed<Run>[]): Promise<Check> {
  const runIds = runs.map(({ id }) => id)
  const { lookedAt, problems } = await missingOf(tables, session.id, runIds)
  return check('no record that the log names is missing', lookedAt, problems)
}

/** The environment receipts of every prompt are named by its run, and by the session as far back as it reaches. */
async function linked({ session, runs, bodies, tables }: Evidence, isCut: boolean): Promise<Check> {
  const ofSession = new Set(session.receipt_ids)
  const isWhole = session.receipt_count === session.receipt_ids.length
  const environment = bodies.filter(
    (body) => isEnvironment(body) && body.links.run_id !== undefined && isOver(runs, body.links.run_id),
  )
  // As the log tells it: runs of one millisecond are listed in any order.
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

/** Refusals to act on the record itself, which others can cause at any time, are no part of a prompt. */
const isEnvironment = ({ kind, capability }: Receipt['body']): boolean =>
  ENVIRONMENT.has(kind) && !capability.startsWith('agent.')

const isOver = (runs: readonly Run[], id: string): boolean =>
  runs.some((run) => run.id === id && run.ended_at !== null)

/** Another provider only where a failover receipt of the same run allowed it; the envelope as it was decided under. */
async function providersExpected({ tables, sealProblem, session, bodies }: Evidence): Promise<Check> {
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

/** Each grant is looked up, and has to fit what was run at the moment when it was decided. */
async function commandsGranted({ tables, sealProblem, rows, bodies }: Evidence): Promise<Check> {
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
        : await ungranted(tables, begin, row.atMs)
    if (problem !== undefined) problems.push(`${id} ${problem}`)
  }
  return check(
    'every passed command had a usable grant',
    `${passed.length} passed command${passed.length === 1 ? '' : 's'}`,
    problems,
  )
}

async function ungranted(
  tables: Tables,
  { links, capability, operation, operator, decision }: Receipt['body'],
  atMs: number,
): Promise<string | undefined> {
  if (decision?.effect !== 'allow') return 'was not allowed'
  if (links.grant_outcome !== 'usable')
    return `ran with a grant that was ${links.grant_outcome ?? 'not checked'}`
  // One that cannot be read is no grant either; which it is, is said with the grants.
  const grant = await findGrant(tables, links.grant_id).catch(() => null)
  if (grant?.found !== 'grant') return `names ${links.grant_id ?? 'no grant'}, which does not exist`
  const { session_id, task_id, run_id } = links
  const outcome = checkGrant(
    // Uses and revocation are as they are now; it was decided then.
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

/** A denial is a point in the log: nothing began with it, nothing ended it, and the request did not run after it. */
async function denialsRanNothing({ tables, bodies }: Evidence): Promise<Check> {
  const denials = bodies.filter(({ kind }) => kind === 'denial')
  const problems: string[] = []
  for (const denial of denials) {
    const end = await tables.receipts.endOf(denial.id)
    if (end !== undefined || denial.phase !== 'point')
      problems.push(`${denial.id} is a denial, but has a begin or end`)
  }
  for (const { denialId, beginId } of ranAfterDenial(bodies)) {
    problems.push(`${denialId} denied a request that ${beginId} ran`)
  }
  return check(
    'no denied request ran',
    `${denials.length} denial${denials.length === 1 ? '' : 's'}`,
    problems,
  )
}

async function receiptsGenuine({ sealProblem, rows }: Evidence): Promise<Check> {
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
