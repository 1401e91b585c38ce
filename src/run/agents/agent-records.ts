/** Sealed records in a transaction: read only with a matching seal, written only with a new one. */
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { Clock } from '../../lib/clock.ts'
import type { ReceiptRef, ReceiptWriter } from '../../receipts/receipt-writer.ts'
import { checkRecord, type RecordSealer, type SealStatus } from '../../receipts/record-seal.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import type { ReceiptDraft } from '../../receipts/schema.ts'
import type { Home } from '../../store/home.ts'
import type { Tables } from '../../store/store.ts'
import { parseSession, type Session } from './agent-session.ts'
import type { Handoff } from './handoff.ts'
import { refusalOf } from './record-refusal.ts'
import { parseRun, type Run } from './run-record.ts'
import type { Refused } from './tokens.ts'

/** The parts of the writer thread's sealer that agents need. */
export interface AgentSealer extends ReceiptWriter, RecordSealer {
  /** Ends the receipts that dead processes left open, as indeterminate. */
  closeDead(tables: Tables): Promise<void>
}

interface StoredRecord<T> {
  readonly record: T
  readonly seal: SealStatus
}

export class AgentRecords {
  readonly tables: Tables
  readonly sealer: AgentSealer
  readonly nowMs: number
  readonly #home: Home

  constructor(tables: Tables, sealer: AgentSealer, clock: Clock, home: Home) {
    this.tables = tables
    this.sealer = sealer
    this.nowMs = clock.nowMs()
    this.#home = home
  }

  async session(id: string): Promise<StoredRecord<Session>> {
    const row = await this.tables.sessions.get(id)
    if (row === undefined) throw unknownSession(id)
    const seal = checkRecord(this.#home, `session:${id}`, row.document, row.seal)
    return { record: readable(() => parseSession(row.document), `session ${id}`), seal }
  }

  async run(id: string): Promise<StoredRecord<Run>> {
    const row = await this.tables.runs.get(id)
    if (row === undefined) throw unknownRun(id)
    const seal = checkRecord(this.#home, `run:${id}`, row.document, row.seal)
    return { record: readable(() => parseRun(row.document), `run ${id}`), seal }
  }

  /** Returns a run of this process. Throws when the record does not match its seal. */
  async getTrustedRun(id: string): Promise<Run> {
    const { record, seal } = await this.run(id)
    if (seal !== 'verified')
      throw new CraikError('tampered', `run ${id} was changed outside Craik`, {
        hint: `list the receipts of the run:  craik receipts list --run ${id}`,
      })
    return record
  }

  async putSession(session: Session, how: 'insert' | 'update'): Promise<string> {
    const { document, seal } = await this.#seal(`session:${session.id}`, session)
    const row = { id: session.id, document, seal, createdAtMs: this.nowMs }
    if (how === 'update') await this.tables.sessions.update(row)
    else if (!(await this.tables.sessions.insert(row))) throw sessionExists(session.id)
    return seal
  }

  async putRun(run: Run, how: 'insert' | 'update'): Promise<void> {
    const { document, seal } = await this.#seal(`run:${run.id}`, run)
    const row = { id: run.id, document, seal, createdAtMs: this.nowMs }
    if (how === 'update') await this.tables.runs.update(row)
    else if (!(await this.tables.runs.insert(row)))
      throw new CraikError('conflict', `run ${run.id} already exists`, {
        hint: `show the run:  craik run show ${run.id}`,
      })
  }

  async putHandoff(handoff: Handoff): Promise<void> {
    const { document, seal } = await this.#seal(`handoff:${handoff.id}`, handoff)
    await this.tables.handoffs.insert({ id: handoff.id, document, seal, createdAtMs: this.nowMs })
  }

  event(
    run: Pick<Run, 'id' | 'session_id'> | undefined,
    type: string,
    facts: Json,
    sessionId?: string,
  ): Promise<void> {
    return this.tables.agentEvents.append({
      sessionId: run?.session_id ?? sessionId ?? null,
      runId: run?.id ?? null,
      type,
      atMs: this.nowMs,
      document: canonicalJson(facts),
    })
  }

  receipt(draft: Omit<ReceiptDraft, 'kind' | 'phase'>): Promise<ReceiptRef> {
    return this.sealer.append(this.tables, { kind: 'environment_decision', phase: 'point', ...draft })
  }

  /** Returns `undefined` when the operator is allowed to act on the record. */
  async refusal(
    what: 'session' | 'run',
    { record, seal }: StoredRecord<Session> | StoredRecord<Run>,
    operator: string,
    operation: string,
  ): Promise<Refused | undefined> {
    if (record.operator_subject === operator && seal === 'verified') return undefined
    const refusal = refusalOf(what, { record, status: seal }, operator, operation)
    const { rule, reason } = refusal
    const receipt = await this.sealer.append(this.tables, { ...refusal.receipt, phase: 'point' })
    return { outcome: 'refused', rule, reason, receipt }
  }

  async #seal(what: string, record: object): Promise<{ document: string; seal: string }> {
    const document = canonicalJson(JSON.parse(JSON.stringify(record)) as Json)
    return { document, seal: await this.sealer.sealRecord(this.tables, what, document) }
  }
}

export function sessionExists(id: string): CraikError {
  return new CraikError('usage', `session ${id} already exists`, {
    hint: `use it:  craik agent prompt ${id} "<what to do>"   or choose another --session-id`,
  })
}

export function unknownSession(id: string): CraikError {
  return new CraikError('not_found', `unknown agent session: ${id}`, {
    hint: 'list sessions:  craik agent list',
  })
}

export function unknownRun(id: string): CraikError {
  return new CraikError('not_found', `unknown run: ${id}`, { hint: 'list runs:  craik run list' })
}

/** Returns a user's reason in a form that is safe to store. */
export function cleanReason(reason: string | undefined): { readonly reason?: string } {
  return reason === undefined ? {} : { reason: redactText(reason.slice(0, 300)).text.toWellFormed() }
}

/** A document that does not parse is damaged, whatever its seal is. */
function readable<T>(parse: () => T, what: string): T {
  try {
    return parse()
  } catch (cause) {
    throw new CraikError('store_damaged', `cannot read ${what}`, { cause })
  }
}
