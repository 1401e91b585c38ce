/** Sessions, runs and handoffs as they are read: with the word on whether each still fits its seal. */
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { checkRecord, type SealStatus } from '../../receipts/record-seal.ts'
import type { SealedRow } from '../../store/agent-tables.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { type Handoff, parseHandoff } from './handoff.ts'
import { readable, unknownRun, unknownSession } from './keeper.ts'
import { parseRun, type Run } from './run-record.ts'
import { parseSession, type Session } from './session.ts'

/** Where records are read: the store, and the home whose keys sealed them. */
export interface RecordPlace {
  readonly store: Store
  readonly home: Home
}

export interface Checked<T> {
  readonly record: T
  readonly seal: string
  readonly status: SealStatus
}

export interface SessionEvent {
  readonly type: string
  readonly at: string
  readonly run_id: string | null
  readonly facts: Json
}

/** More than any list shows. */
const MAX_LISTED = 1000

export async function getSession(place: RecordPlace, id: string): Promise<Checked<Session>> {
  const row = await place.store.read((tables) => tables.sessions.get(id))
  if (row === undefined) throw unknownSession(id)
  return checked(place, 'session', row, parseSession)
}

export async function getRun(place: RecordPlace, id: string): Promise<Checked<Run>> {
  const row = await place.store.read((tables) => tables.runs.get(id))
  if (row === undefined) throw unknownRun(id)
  return checked(place, 'run', row, parseRun)
}

export async function getHandoff(place: RecordPlace, id: string): Promise<Checked<Handoff>> {
  const row = await place.store.read((tables) => tables.handoffs.get(id))
  if (row === undefined) {
    throw new CraikError('not_found', `unknown handoff: ${id}`, {
      hint: 'see them with:  craik handoff list',
    })
  }
  return checked(place, 'handoff', row, parseHandoff)
}

/** Newest first. */
export async function listSessions(
  place: RecordPlace,
  filter: { readonly status?: string; readonly operator_subject?: string } = {},
  limit = MAX_LISTED,
): Promise<readonly Checked<Session>[]> {
  const rows = await place.store.read((tables) => tables.sessions.list(filter, limit))
  return rows.map((row) => checked(place, 'session', row, parseSession))
}

export async function listRuns(
  place: RecordPlace,
  filter: { readonly status?: string; readonly session_id?: string; readonly task_id?: string } = {},
  limit = MAX_LISTED,
): Promise<readonly Checked<Run>[]> {
  const rows = await place.store.read((tables) => tables.runs.list(filter, limit))
  return rows.map((row) => checked(place, 'run', row, parseRun))
}

export async function listHandoffs(
  place: RecordPlace,
  filter: { readonly status?: string; readonly session_id?: string; readonly run_id?: string } = {},
  limit = MAX_LISTED,
): Promise<readonly Checked<Handoff>[]> {
  const rows = await place.store.read((tables) => tables.handoffs.list(filter, limit))
  return rows.map((row) => checked(place, 'handoff', row, parseHandoff))
}

/** Oldest first. */
export async function listEvents(
  place: RecordPlace,
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

function checked<T>(
  { home }: RecordPlace,
  kind: 'session' | 'run' | 'handoff',
  { id, document, seal }: SealedRow,
  parse: (document: string) => T,
): Checked<T> {
  const status = checkRecord(home, `${kind}:${id}`, document, seal)
  return { record: readable(() => parse(document), `${kind} ${id}`), seal, status }
}
