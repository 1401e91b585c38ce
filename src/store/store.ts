/**
 * What the rooms above may ask of a store. One narrow table per aggregate, all asynchronous, so that an
 * embedded SQLite and a shared PostgreSQL can both stand behind it.
 */
import type { EnvelopeId, GrantId, ReceiptId } from '../lib/ids.ts'
import type { Owner } from '../lib/owner.ts'
import type {
  AgentEventTable,
  HandoffTable,
  LoginTable,
  PromptRunTable,
  RunTable,
  SessionTable,
} from './agent-tables.ts'
import type { BreakerTable } from './breaker-table.ts'
import type { EgressRuleTable } from './egress-table.ts'
import type { BudgetTable, HoldTable, QuotaTable, QuotaUseTable } from './ledger-tables.ts'
import type {
  BoundaryEpochTable,
  SandboxJobTable,
  SandboxTable,
  SnapshotTable,
  WarmInstanceTable,
} from './sandbox-tables.ts'

export interface Store extends AsyncDisposable {
  /** Runs a registered procedure in one durable transaction, in the writer thread. Many share one commit. */
  write<Input, Output>(procedure: Procedure<Input, Output>, input: Input): Promise<Output>
  /** Reads a consistent snapshot. Never waits for a writer. */
  read<T>(work: (tables: Tables) => Promise<T>): Promise<T>
  /** Finishes what was accepted, then closes. Idempotent. */
  close(): Promise<void>
}

/** The name of a procedure, carrying the types of what goes in and what comes out. */
export interface Procedure<Input, Output> {
  readonly name: string
  readonly __types?: (input: Input) => Output
}

export function procedure<Input, Output>(name: string): Procedure<Input, Output> {
  return { name }
}

/** What a procedure is in the writer thread: it sees the tables inside the transaction. */
type ProcedureBody = (tables: Tables, input: never) => Promise<unknown>
export type Procedures = Readonly<Record<string, ProcedureBody>>

/** The tables inside a transaction. After anything was undone, later transactions see a new object. */
export interface Tables {
  readonly receipts: ReceiptTable
  readonly tree: TreeTable
  readonly openReceipts: OpenReceiptTable
  readonly logKeys: LogKeyTable
  readonly documents: DocumentTable
  readonly envelopes: EnvelopeTable
  readonly grants: GrantTable
  readonly secrets: SecretTable
  readonly commands: CommandTable
  readonly providerSettings: ProviderSettingTable
  readonly budgets: BudgetTable
  readonly holds: HoldTable
  readonly quotas: QuotaTable
  readonly quotaUses: QuotaUseTable
  readonly breakers: BreakerTable
  readonly logins: LoginTable
  readonly sessions: SessionTable
  readonly runs: RunTable
  readonly handoffs: HandoffTable
  readonly agentEvents: AgentEventTable
  readonly sandboxes: SandboxTable
  readonly sandboxJobs: SandboxJobTable
  readonly boundaryEpochs: BoundaryEpochTable
  readonly snapshots: SnapshotTable
  readonly warmPlaces: WarmInstanceTable
  readonly egressRules: EgressRuleTable
  readonly promptRuns: PromptRunTable
}

export interface ReceiptRow {
  readonly seq: number
  readonly id: ReceiptId
  readonly kind: string
  readonly phase: string
  readonly status: string | null
  readonly sessionId: string | null
  readonly taskId: string | null
  readonly runId: string | null
  readonly handoffId: string | null
  readonly policyEnvelopeId: string | null
  readonly beginId: string | null
  readonly atMs: number
  readonly leaf: Uint8Array
  readonly line: string
}

export interface ReceiptFilter {
  readonly kind?: string
  readonly status?: string
  readonly sessionId?: string
  readonly taskId?: string
  readonly runId?: string
  readonly handoffId?: string
  readonly policyEnvelopeId?: string
  readonly sinceMs?: number
  readonly untilMs?: number
}

export interface LogHead extends Pick<ReceiptRow, 'seq' | 'leaf' | 'atMs'> {
  readonly kid: string
}

export interface ReceiptTable {
  /** Append only: a reused id is an error. False when the sequence number is taken. */
  insert(row: ReceiptRow): Promise<boolean>
  /** The newest, with the key that the log is written with now: what sealing the next one needs. */
  last(): Promise<LogHead | undefined>
  get(id: string): Promise<ReceiptRow | undefined>
  /** Every end that refers to a begin is found through it. */
  endOf(beginId: string): Promise<ReceiptRow | undefined>
  /** Makes [from, to) quick to find by their links. Done with each checkpoint: later, but for many at once. */
  indexLinks(from: number, to: number): Promise<void>
  /** The first receipt before `upTo` that its links would not find, if there is one. */
  firstUnindexed(upTo: number): Promise<number | undefined>
  /** In sequence order, from `from`, at most `limit`. */
  scan(from: number, limit: number): Promise<readonly ReceiptRow[]>
  /** Newest first; `before` pages on. */
  find(filter: ReceiptFilter, limit: number, before?: number): Promise<readonly ReceiptRow[]>
}

export interface CheckpointRow {
  readonly size: number
  readonly root: Uint8Array
  readonly note: string
  readonly atMs: number
}

/** The Merkle tree's stored parts: leaf hashes, complete subtrees of 256, and the signed checkpoints. */
export interface TreeTable {
  leaves(from: number, to: number): Promise<readonly Uint8Array[]>
  node(level: number, index: number): Promise<Uint8Array | undefined>
  putNode(level: number, index: number, hash: Uint8Array): Promise<void>
  putCheckpoint(row: CheckpointRow): Promise<void>
  lastCheckpoint(): Promise<CheckpointRow | undefined>
  checkpoint(size: number): Promise<CheckpointRow | undefined>
  /** In order of size, those with `after < size <= upTo`. */
  checkpoints(after: number, upTo: number): Promise<readonly CheckpointRow[]>
}

export interface OpenReceiptRow {
  readonly id: ReceiptId
  readonly owner: Owner
}

/** Begun and not yet ended: derived from the log, kept so that a dead owner's are found at once. */
export interface OpenReceiptTable {
  add(row: OpenReceiptRow): Promise<void>
  /** False when it was not open: it never began, or it ended already. */
  remove(id: string): Promise<boolean>
  list(): Promise<readonly OpenReceiptRow[]>
}

export interface LogKeyRow {
  readonly kid: string
  readonly origin: string
  readonly vkey: string
  readonly fromSeq: number
}

export interface LogKeyTable {
  add(row: LogKeyRow): Promise<void>
  current(): Promise<LogKeyRow | undefined>
  list(): Promise<readonly LogKeyRow[]>
}

export interface DocumentRow {
  readonly digest: string
  readonly mediaType: string
  readonly text: string
}

/** Documents kept by digest, so that a decision can be recomputed from what it was made with. */
export interface DocumentTable {
  /** Keeping the same document twice is fine. */
  put(row: DocumentRow): Promise<void>
  get(digest: string): Promise<DocumentRow | undefined>
  list(): Promise<readonly DocumentRow[]>
}

export interface EnvelopeRow {
  readonly id: EnvelopeId
  readonly document: string
  readonly createdAtMs: number
}

export interface EnvelopeTable {
  insert(row: EnvelopeRow): Promise<void>
  get(id: string): Promise<EnvelopeRow | undefined>
}

export interface GrantRow {
  readonly id: GrantId
  readonly capability: string
  readonly subject: string
  /** The grant's fixed part, as canonical JSON. */
  readonly document: string
  readonly usesLeft: number | null
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
  readonly createdAtMs: number
}

export interface GrantTable {
  insert(row: GrantRow): Promise<void>
  get(id: string): Promise<GrantRow | undefined>
  list(limit: number): Promise<readonly GrantRow[]>
  /** Newest first, those of a capability and subject that are neither used up, expired nor revoked. */
  usable(capability: string, subject: string, nowMs: number): Promise<readonly GrantRow[]>
  /** False when no use was left. Unlimited grants stay as they are. */
  consume(id: string): Promise<boolean>
  /** False when it was revoked before. */
  revoke(id: string, atMs: number): Promise<boolean>
}

export interface SecretRow {
  readonly name: string
  /** Where the value comes from: env, file, keyring, command, or stored. */
  readonly source: string
  /** The variable, path, item or reference; null for a stored value. */
  readonly reference: string | null
  readonly sealed: Uint8Array | null
  readonly updatedAtMs: number
}

export interface SecretTable {
  put(row: SecretRow): Promise<void>
  get(name: string): Promise<SecretRow | undefined>
  list(): Promise<readonly SecretRow[]>
  remove(name: string): Promise<boolean>
}

export interface CommandRow {
  readonly ref: string
  readonly argv: readonly string[]
  readonly createdAtMs: number
}

/** Registered argv, so that records name a command instead of spelling it. */
export interface CommandTable {
  insert(row: CommandRow): Promise<void>
  get(ref: string): Promise<CommandRow | undefined>
  list(): Promise<readonly CommandRow[]>
  remove(ref: string): Promise<boolean>
}

export interface ProviderSettingRow {
  readonly providerId: string
  readonly enabled: boolean
  readonly baseUrl: string
  readonly model: string
  readonly updatedAtMs: number
}

/** Live routing to local models, as it was switched on or off. */
export interface ProviderSettingTable {
  put(row: ProviderSettingRow): Promise<void>
  get(providerId: string): Promise<ProviderSettingRow | undefined>
  list(): Promise<readonly ProviderSettingRow[]>
}
