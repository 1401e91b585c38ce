/** Sessions, runs and handoffs as they are read: with the word on whether each still fits its seal. */
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { checkRecord, type SealStatus } from '../../receipts/record-seal.ts'
import type { SealedRow } from '../../store/agent-tables.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { unknownRun, unknownSession } from './agent-records.ts'
import { type Handoff, parseHandoff } from './handoff.ts'
import { parseRun, type Run } from './run-record.ts'
import { parseSession, type Session } from './session.ts'

/** Where records are read: the store, and the home whose keys sealed them. */
export interface RecordDeps {
  readonly store: Store
  readonly home: Home
}

export interface Checked<T> {
  readonly record: T
  readonly seal: string
  readonly status: SealStatus
}

/** A row of a list. One that cannot be read does not hide the others. */
export interface Listed<T> {
  readonly id: string
  /** Undefined: what is there is no such record. */
  readonly record: T | undefined
  readonly seal: string
  readonly status: SealStatus | 'unreadable'
}

export interface SessionEvent {
  readonly type: string
  readonly at: string
  readonly run_id: string | null
  readonly facts: Json
}

/** More than any list shows. */
const MAX_LISTED = 1000
/** So that the newest of many operators leave room for one's own. */
const MAX_LOOKED_AT = 20_000

export async function getSession(place: RecordDeps, id: string): Promise<Checked<Session>> {
  const row = await place.store.read((tables) => tables.sessions.get(id))
  if (row === undefined) throw unknownSession(id)
  return checked(place, 'session', row, parseSession)
}

export async function getRun(place: RecordDeps, id: string): Promise<Checked<Run>> {
  const row = await place.store.read((tables) => tables.runs.get(id))
  if (row === undefined) throw unknownRun(id)
  return checked(place, 'run', row, parseRun)
}

export async function getHandoff(place: RecordDeps, id: string): Promise<Checked<Handoff>> {
  const row = await place.store.read((tables) => tables.handoffs.get(id))
  if (row === undefined) {
    throw new CraikError('not_found', `unknown handoff: ${id}`, {
      hint: 'list handoffs:  craik handoff list',
    })
  }
  return checked(place, 'handoff', row, parseHandoff)
}

/** What an operator sees of a list: their own, newest first, and how many others there are. */
export interface OwnList<T> {
  readonly own: readonly Listed<T>[]
  readonly others: number
}

export async function listOwnSessions(
  place: RecordDeps,
  operator: string,
  filter: { readonly status?: string } = {},
): Promise<OwnList<Session>> {
  const rows = await place.store.read((tables) => tables.sessions.list(filter, MAX_LOOKED_AT))
  return ownOf(rows, operator, (row) => listed(place, 'session', row, parseSession))
}

export async function listOwnRuns(
  place: RecordDeps,
  operator: string,
  filter: { readonly status?: string; readonly session_id?: string } = {},
): Promise<OwnList<Run>> {
  const rows = await place.store.read((tables) => tables.runs.list(filter, MAX_LOOKED_AT))
  return ownOf(rows, operator, (row) => listed(place, 'run', row, parseRun))
}

export async function listOwnHandoffs(
  place: RecordDeps,
  operator: string,
  filter: { readonly status?: string; readonly session_id?: string } = {},
): Promise<OwnList<Handoff>> {
  const rows = await place.store.read((tables) => tables.handoffs.list(filter, MAX_LOOKED_AT))
  return ownOf(rows, operator, (row) => listed(place, 'handoff', row, parseHandoff))
}

/** All operators', newest first, for whoever may see the session that they belong to. */
export async function listRuns(
  place: RecordDeps,
  filter: { readonly status?: string; readonly session_id?: string; readonly task_id?: string } = {},
  limit = MAX_LISTED,
): Promise<readonly Listed<Run>[]> {
  const rows = await place.store.read((tables) => tables.runs.list(filter, limit))
  return rows.map((row) => listed(place, 'run', row, parseRun))
}

export async function listHandoffs(
  place: RecordDeps,
  filter: { readonly status?: string; readonly session_id?: string; readonly run_id?: string } = {},
  limit = MAX_LISTED,
): Promise<readonly Listed<Handoff>[]> {
  const rows = await place.store.read((tables) => tables.handoffs.list(filter, limit))
  return rows.map((row) => listed(place, 'handoff', row, parseHandoff))
}

/** Oldest first. */
export async function listEvents(
  place: RecordDeps,
  of: { readonly sessionId: string } | { readonly runId: string },
): Promise<readonly SessionEvent[]> {
  const rows = await place.store.read((tables) => tables.agentEvents.list(of, 10 * MAX_LISTED))
  return rows.map(({ type, atMs, runId, document }) => ({
    type,
    at: new Date(atMs).toISOString(),
    run_id: runId,
    facts: JSON.parse(document) as Json,
  }))
}

function ownOf<T>(
  rows: readonly SealedRow[],
  operator: string,
  check: (row: SealedRow) => Listed<T>,
): OwnList<T> {
  const own = rows.filter(({ document }) => {
    const subject = subjectOf(document)
    // What says nothing of anybody is damage, and everybody's to see: of it no more than its id is shown.
    return subject === operator || typeof subject !== 'string'
  })
  return { own: own.slice(0, MAX_LISTED).map(check), others: rows.length - own.length }
}

function subjectOf(document: string): unknown {
  try {
    return (JSON.parse(document) as { readonly operator_subject?: unknown } | null)?.operator_subject
  } catch {
    return undefined
  }
}

function listed<T>(
  { home }: RecordDeps,
  kind: 'session' | 'run' | 'handoff',
  { id, document, seal }: SealedRow,
  parse: (document: string) => T,
): Listed<T> {
  const status = checkRecord(home, `${kind}:${id}`, document, seal)
  try {
    return { id, record: parse(document), seal, status }
  } catch {
    return { id, record: undefined, seal, status: status === 'tampered' ? status : 'unreadable' }
  }
}

function checked<T>(
  place: RecordDeps,
  kind: 'session' | 'run' | 'handoff',
  row: SealedRow,
  parse: (document: string) => T,
): Checked<T> {
  const { id, record, seal, status } = listed(place, kind, row, parse)
  if (record !== undefined && status !== 'unreadable') return { record, seal, status }
  const isTampered = status === 'tampered'
  const why = isTampered ? 'was changed outside Craik and is unreadable' : 'is unreadable'
  throw new CraikError(isTampered ? 'tampered' : 'store_damaged', `${kind} ${id} ${why}`, {
    hint: `list its receipts:  craik receipts list --${kind} ${id}`,
  })
}
