/** Checks that no record of a session is missing, by comparing the records with the log. */
import type { Receipt } from '../../receipts/schema.ts'
import type { AgentEventRow } from '../../store/agent-tables.ts'
import type { Tables } from '../../store/store.ts'
import { MAX_SESSION_HANDOFFS } from './agent-session.ts'
import { parseReceiptBody } from './receipt-body.ts'

type Body = Receipt['body']

const PAGE = 500
/** The most receipts of sessions and runs that are checked. Beyond it, the audit reports a problem. */
const MAX_TOLD = 20_000
const MAX_EVENTS = 100_000

export interface Presence {
  readonly lookedAt: string
  readonly problems: readonly string[]
}

/**
 * Reads records after the log. A transaction writes a record with its receipts and never removes it, so every record
 * that the log names exists by then.
 */
export async function missingOf(
  tables: Tables,
  sessionId: string,
  runIds: readonly string[],
): Promise<Presence> {
  const { reported, isCut } = await collectReports(tables, sessionId)
  const document = (await tables.sessions.get(sessionId))?.document
  const handoff_ids = idsIn('handoff_ids', document)
  const events = await tables.agentEvents.list({ sessionId }, MAX_EVENTS)
  const seen = eventsSeen(events)
  const begins = reported.filter((body) => isAbout(body, 'agent.run', 'begin'))
  const ends = reported.filter((body) => isAbout(body, 'agent.run', 'end'))
  const changes = reported.filter(({ capability }) => capability === 'agent.session')
  const problems = isCut ? [`more than ${MAX_TOLD} receipts of runs: the oldest were not checked`] : []

  const ended = new Set(ends.map(({ links }) => links.run_id))
  for (const { links } of begins) {
    const id = links.run_id ?? ''
    const row = await tables.runs.get(id)
    if (row === undefined) problems.push(`${id} began, but its record is missing`)
    else if (ended.has(id) && !isEnded(row.document))
      problems.push(`${id} ended, but its record is older than its end`)
    if (!seen.has(`prompt_received ${id}`)) problems.push(`the prompt event of ${id} is missing`)
  }
  for (const { links, metadata } of ends) {
    const { run_id, handoff_id = '' } = links
    if ((await tables.handoffs.get(handoff_id)) === undefined) {
      problems.push(`handoff ${handoff_id} of ${run_id} is missing`)
    }
    if (!seen.has(`run_${metadata?.run_status} ${run_id}`))
      problems.push(`the end event of ${run_id} is missing`)
  }
  for (const { id, operation = '' } of changes) {
    if (operation in EVENT_OF && !seen.has(`${EVENT_OF[operation]} ${id}`)) {
      problems.push(`the ${operation} event of ${id} is missing`)
    }
  }

  const handedOver = new Set(ends.map(({ links }) => links.handoff_id))
  for (const id of handoff_ids) {
    if (handedOver.has(id)) continue
    if ((await tables.handoffs.get(id)) === undefined)
      problems.push(`${id} is named by the session, but is missing`)
    else if (!isCut) problems.push(`${id} is named by the session, but not in the log`)
  }
  const left = new Set(changes.map(({ metadata }) => metadata?.left_run_id))
  // `ends` is newest first.
  for (const { links } of ends.slice(0, MAX_SESSION_HANDOFFS)) {
    const isNamed = handoff_ids.includes(links.handoff_id ?? '')
    if (!isNamed && !left.has(links.run_id ?? ''))
      problems.push(`${links.handoff_id} is not named by the session`)
  }
  problems.push(...(await putBack(tables, changes[0], document)))
  const begun = new Set(begins.map(({ links }) => links.run_id))
  if (!isCut) {
    for (const id of runIds) if (!begun.has(id)) problems.push(`${id} has no begin receipt`)
    if (begins.length + changes.length === 0) problems.push(`the log has no launch of ${sessionId}`)
  }
  return {
    lookedAt: `${formatCount(begins.length, 'run')}, ${formatCount(ends.length, 'handoff')}, ${formatCount(events.length, 'event')}`,
    problems,
  }
}

/**
 * The session must list its newest change, unless later receipts pushed it out. A stopped session must stay stopped.
 */
async function putBack(
  tables: Tables,
  newest: Body | undefined,
  document: string | undefined,
): Promise<readonly string[]> {
  if (newest === undefined || document === undefined) return []
  const named = idsIn('receipt_ids', document)
  const last = named.at(-1)
  if (!named.includes(newest.id)) {
    const isWhole = memberOf(document, 'receipt_count') === named.length
    const changedAt = (await tables.receipts.get(newest.id))?.seq ?? 0
    const lastAt = (await tables.receipts.get(last ?? ''))?.seq ?? -1
    const isPushedOut = !isWhole && lastAt > changedAt
    return isPushedOut ? [] : [`the session is older than its ${newest.operation} ${newest.id}`]
  }
  const status = memberOf(document, 'status')
  // A receipt after the stop can be a restart since the log was read.
  const isStopped = newest.metadata?.to_status !== 'stopped' || last !== newest.id || status === 'stopped'
  return isStopped ? [] : [`the session is ${status} after its ${newest.operation} ${newest.id}`]
}

const EVENT_OF: Readonly<Record<string, string>> = {
  launch: 'launched',
  rename: 'renamed',
  stop: 'stop_requested',
  restart: 'restarted',
  recover: 'recovered',
}

/** Returns the receipts newest first. */
async function collectReports(
  tables: Tables,
  sessionId: string,
): Promise<{ readonly reported: readonly Body[]; readonly isCut: boolean }> {
  const reported: Body[] = []
  let before: number | undefined
  for (let looked = 0; looked < MAX_TOLD; looked += PAGE) {
    const page = await tables.receipts.find({ sessionId, kind: 'environment_decision' }, PAGE, before)
    reported.push(...page.flatMap(({ line }) => parseReceiptBody(line) ?? []))
    if (page.length < PAGE) return { reported: reported, isCut: false }
    before = page.at(-1)!.seq
  }
  return { reported: reported, isCut: true }
}

export const isAbout = (body: Body, capability: string, operation: string): boolean =>
  body.capability === capability && body.operation === operation

/** Returns keys of the events: type and run, or type and receipt. */
function eventsSeen(rows: readonly AgentEventRow[]): ReadonlySet<string> {
  return new Set(rows.map(({ type, runId, document }) => `${type} ${runId ?? receiptOf(document) ?? ''}`))
}

function receiptOf(document: string): unknown {
  return memberOf(document, 'receipt_id')
}

function idsIn(member: string, document = ''): readonly string[] {
  const ids = memberOf(document, member)
  return Array.isArray(ids) ? ids.map(String) : []
}

function isEnded(document: string): boolean {
  return typeof memberOf(document, 'ended_at') === 'string'
}

function memberOf(document: string, name: string): unknown {
  try {
    return (JSON.parse(document) as Readonly<Record<string, unknown>> | null)?.[name]
  } catch {
    return undefined
  }
}

function formatCount(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`
}
