/** What the store keeps about operators and their agents. */

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

/** A record that may change, but only with a seal that fits. */
export interface SealedRow {
  readonly id: string
  readonly document: string
  readonly seal: string
  readonly createdAtMs: number
}

export interface SealedTable<Member extends string> {
  /** False when the id is taken. */
  insert(row: SealedRow): Promise<boolean>
  /** False when there is no such record. */
  update(row: Pick<SealedRow, 'id' | 'document' | 'seal'>): Promise<boolean>
  /** False when there was no such record. */
  remove(id: string): Promise<boolean>
  get(id: string): Promise<SealedRow | undefined>
  /** Newest first; filters compare with members of the document. */
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
  /** JSON: hashes and references, never what was said. */
  readonly document: string
}

/** Append only, for as long as the session is there. */
export interface AgentEventTable {
  append(row: AgentEventRow): Promise<void>
  /** After the session itself: the events of one that is there do not leave. */
  removeWith(sessionId: string): Promise<number>
  /** Oldest first. */
  list(
    of: { readonly sessionId: string } | { readonly runId: string },
    limit: number,
  ): Promise<readonly AgentEventRow[]>
}
