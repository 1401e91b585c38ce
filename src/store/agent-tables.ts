/** The tables of operators and their agents. */

export interface LoginRow {
  readonly id: string
  readonly subject: string
  readonly issuer: string
  readonly sinceMs: number
  readonly endedAtMs: number | null
}

/** At most one login is active at a time. */
export interface LoginTable {
  insert(row: LoginRow): Promise<void>
  active(): Promise<LoginRow | undefined>
  end(id: string, atMs: number): Promise<boolean>
  /** Newest first. */
  list(limit: number): Promise<readonly LoginRow[]>
}

/** A record that can change. Its seal must match its document. */
export interface SealedRow {
  readonly id: string
  readonly document: string
  readonly seal: string
  readonly createdAtMs: number
}

export interface SealedTable<Member extends string> {
  /** Returns false when the id exists. */
  insert(row: SealedRow): Promise<boolean>
  /** Returns false when the record does not exist. */
  update(row: Pick<SealedRow, 'id' | 'document' | 'seal'>): Promise<boolean>
  /** Returns false when the record did not exist. */
  remove(id: string): Promise<boolean>
  get(id: string): Promise<SealedRow | undefined>
  /** Newest first. Filters compare with fields of the document. */
  list(filter: Partial<Record<Member, string>>, limit: number): Promise<readonly SealedRow[]>
}

export type SessionTable = SealedTable<'status' | 'operator_subject'>
export type RunTable = SealedTable<'status' | 'session_id' | 'task_id'>
export type PromptRunTable = SealedTable<'status' | 'sandbox_id'>
export type HandoffTable = SealedTable<'status' | 'session_id' | 'run_id'>

export interface AgentEventRow {
  readonly sessionId: string | null
  readonly runId: string | null
  readonly type: string
  readonly atMs: number
  /** JSON with hashes and references, never with the text of a conversation. */
  readonly document: string
}

/** An append-only table for as long as the session exists. */
export interface AgentEventTable {
  append(row: AgentEventRow): Promise<void>
  /** Removes the events of a session that no longer exists. The events of an existing session cannot be removed. */
  removeWith(sessionId: string): Promise<number>
  /** Oldest first. */
  list(
    of: { readonly sessionId: string } | { readonly runId: string },
    limit: number,
  ): Promise<readonly AgentEventRow[]>
}
