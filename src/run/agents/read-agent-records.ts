/** Reads sessions, runs and handoffs, and reports whether each still matches its seal. */
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { checkRecord, type SealStatus } from '../../receipts/record-seal.ts'
import type { SealedRow } from '../../store/agent-tables.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { unknownRun, unknownSession } from './agent-records.ts'
import { parseSession, type Session } from './agent-session.ts'
import { type Handoff, parseHandoff } from './handoff.ts'
import { parseRun, type Run } from './run-record.ts'

/** The store, and the home whose keys sealed its records. */
export interface RecordDeps {
  readonly store: Store
  readonly home: Home
}

export interface Checked<T> {
  readonly record: T
  readonly seal: string
  readonly status: SealStatus
}

/** A row of a list. An unreadable row does not hide the others. */
export interface Listed<T> {
  readonly id: string
  /** `undefined` when the stored text is not such a record. */
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

/** The most records that any list returns. */
const MAX_LISTED = 1000
/** So that the newest records of many operators do not hide an operator's own. */
const MAX_LOOKED_AT = 20_000

export async function getSession(deps: RecordDeps, id: string): Promise<Checked<Session>> {
  const row = await deps.store.read((tables) => tables.sessions.get(id))
  if (row === undefined) throw unknownSession(id)
  return verifyRow(deps, 'session', row, parseSession)
}

export async function getRun(deps: RecordDeps, id: string): Promise<Checked<Run>> {
  const row = await deps.store.read((tables) => tables.runs.get(id))
  if (row === undefined) throw unknownRun(id)
  return verifyRow(deps, 'run', row, parseRun)
}

export async function getHandoff(deps: RecordDeps, id: string): Promise<Checked<Handoff>> {
  const row = await deps.store.read((tables) => tables.handoffs.get(id))
  if (row === undefined) {
    throw new CraikError('not_found', `unknown handoff: ${id}`, {
      hint: 'list handoffs:  craik handoff list',
    })
  }
  return verifyRow(deps, 'handoff', row, parseHandoff)
}

/** An operator's own records, newest first, and the number of others. */
export interface OwnList<T> {
  readonly own: readonly Listed<T>[]
  readonly others: number
}

export async function listOwnSessions(
  deps: RecordDeps,
  operator: string,
  filter: { readonly status?: string } = {},
): Promise<OwnList<Session>> {
  const rows = await deps.store.read((tables) => tables.sessions.list(filter, MAX_LOOKED_AT))
  return ownOf(rows, operator, (row) => toListed(deps, 'session', row, parseSession))
}

export async function listOwnRuns(
  deps: RecordDeps,
  operator: string,
  filter: { readonly status?: string; readonly session_id?: string } = {},
): Promise<OwnList<Run>> {
  const rows = await deps.store.read((tables) => tables.runs.list(filter, MAX_LOOKED_AT))
  return ownOf(rows, operator, (row) => toListed(deps, 'run', row, parseRun))
}

export async function listOwnHandoffs(
  deps: RecordDeps,
  operator: string,
  filter: { readonly status?: string; readonly session_id?: string } = {},
): Promise<OwnList<Handoff>> {
  const rows = await deps.store.read((tables) => tables.handoffs.list(filter, MAX_LOOKED_AT))
  return ownOf(rows, operator, (row) => toListed(deps, 'handoff', row, parseHandoff))
}

/** Returns the runs of all operators, newest first, for callers that may read their session. */
export async function listRuns(
  deps: RecordDeps,
  filter: { readonly status?: string; readonly session_id?: string; readonly task_id?: string } = {},
  limit = MAX_LISTED,
): Promise<readonly Listed<Run>[]> {
  const rows = await deps.store.read((tables) => tables.runs.list(filter, limit))
  return rows.map((row) => toListed(deps, 'run', row, parseRun))
}

export async function listHandoffs(
  deps: RecordDeps,
  filter: { readonly status?: string; readonly session_id?: string; readonly run_id?: string } = {},
  limit = MAX_LISTED,
): Promise<readonly Listed<Handoff>[]> {
  const rows = await deps.store.read((tables) => tables.handoffs.list(filter, limit))
  return rows.map((row) => toListed(deps, 'handoff', row, parseHandoff))
}

/** Returns the events, oldest first. */
export async function listEvents(
  deps: RecordDeps,
  of: { readonly sessionId: string } | { readonly runId: string },
): Promise<readonly SessionEvent[]> {
  const rows = await deps.store.read((tables) => tables.agentEvents.list(of, 10 * MAX_LISTED))
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
    // A record without an owner is damaged. Everybody can see its id, and nothing more.
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

function toListed<T>(
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

function verifyRow<T>(
  deps: RecordDeps,
  kind: 'session' | 'run' | 'handoff',
  row: SealedRow,
  parse: (document: string) => T,
): Checked<T> {
  const { id, record, seal, status } = toListed(deps, kind, row, parse)
  if (record !== undefined && status !== 'unreadable') return { record, seal, status }
  const isTampered = status === 'tampered'
  const why = isTampered ? 'was changed outside Craik and is unreadable' : 'is unreadable'
  throw new CraikError(isTampered ? 'tampered' : 'store_damaged', `${kind} ${id} ${why}`, {
    hint: `list its receipts:  craik receipts list --${kind} ${id}`,
  })
}
