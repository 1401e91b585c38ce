/**
 * The store's interface for all other modules. It has one narrow table per aggregate. All methods are asynchronous, so
 * that an embedded SQLite and a shared PostgreSQL can both implement it.
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
  /** Runs a registered procedure in one durable transaction in the writer thread. Many procedures share one commit. */
  write<Input, Output>(procedure: Procedure<Input, Output>, input: Input): Promise<Output>
  /** Reads from a consistent snapshot. Never waits for a writer. */
  read<T>(work: (tables: Tables) => Promise<T>): Promise<T>
  /** Completes the accepted writes, then closes. Idempotent. */
  close(): Promise<void>
}

/** The name of a procedure, with the types of its input and output. */
export interface Procedure<Input, Output> {
  readonly name: string
  readonly __types?: (input: Input) => Output
}

export function procedure<Input, Output>(name: string): Procedure<Input, Output> {
  return { name }
}

/** The implementation of a procedure in the writer thread. It receives the tables of the transaction. */
type ProcedureBody = (tables: Tables, input: never) => Promise<unknown>
export type Procedures = Readonly<Record<string, ProcedureBody>>

/** The tables in a transaction. After a rollback, later transactions get a new object. */
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
  readonly warmInstances: WarmInstanceTable
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

export interface LastReceipt extends Pick<ReceiptRow, 'seq' | 'leaf' | 'atMs'> {
  readonly kid: string
}

export interface ReceiptTable {
  /** Append-only. A repeated id is an error. Returns false when the sequence number exists. */
  insert(row: ReceiptRow): Promise<boolean>
  /** Returns the newest receipt and the key that now seals the log. The next receipt needs both. */
  last(): Promise<LastReceipt | undefined>
  get(id: string): Promise<ReceiptRow | undefined>
  /** Finds the end receipt of a begin receipt. */
  endOf(beginId: string): Promise<ReceiptRow | undefined>
  /**
   * Indexes the ids (session, task, run and others) to which the receipts in [from, to) refer. This happens at each
   * checkpoint, for many receipts at once.
   */
  indexLinks(from: number, to: number): Promise<void>
  /** Returns the first receipt before `upTo` whose ids are not indexed, if there is one. */
  firstUnindexed(upTo: number): Promise<number | undefined>
  /** In the order of sequence numbers, from `from`, at most `limit`. */
  scan(from: number, limit: number): Promise<readonly ReceiptRow[]>
  /** Newest first. `before` continues an earlier list. */
  find(filter: ReceiptFilter, limit: number, before?: number): Promise<readonly ReceiptRow[]>
}

export interface CheckpointRow {
  readonly size: number
  readonly root: Uint8Array
  readonly note: string
  readonly atMs: number
}

/** The stored parts of the Merkle tree: leaf hashes, complete subtrees of 256, and the signed checkpoints. */
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

/**
 * Receipts that began and have not ended. The table repeats data of the log, so that Craik quickly finds the open
 * receipts of a process that has died.
 */
export interface OpenReceiptTable {
  add(row: OpenReceiptRow): Promise<void>
  /** Returns false when the receipt was not open: it never began, or it already ended. */
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

/** Documents by digest, so that a decision can be computed again from its original input. */
export interface DocumentTable {
  /** Storing the same document twice is allowed. */
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
  /** The constant part of the grant, as canonical JSON. */
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
  /** Newest first. Returns the grants of a capability and subject that are not used up, expired or revoked. */
  usable(capability: string, subject: string, nowMs: number): Promise<readonly GrantRow[]>
  /** Returns false when no use was left. Grants without a limit do not change. */
  consume(id: string): Promise<boolean>
  /** Returns false when the grant was already revoked. */
  revoke(id: string, atMs: number): Promise<boolean>
}

export interface SecretRow {
  readonly name: string
  /** The source of the value: env, file, keyring, command or stored. */
  readonly source: string
  /** The variable, path, item or reference. Null for a stored value. */
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

/** Registered argv, so that records contain a command's name instead of its arguments. */
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

/** The setting that enables or disables live routing to a local model. */
export interface ProviderSettingTable {
  put(row: ProviderSettingRow): Promise<void>
  get(providerId: string): Promise<ProviderSettingRow | undefined>
  list(): Promise<readonly ProviderSettingRow[]>
}
