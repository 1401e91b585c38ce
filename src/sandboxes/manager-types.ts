/** What the rooms above ask of the sandboxes: every call is decided, receipted and only then done. */
import type { Duplex, Readable } from 'node:stream'
import type { JobId, SandboxId } from '../lib/ids.ts'
import type {
  FileList,
  FileStat,
  JobSpec,
  JobStatus,
  Metrics,
  ProcessInfo,
  Upload,
} from '../sidecar/protocol.ts'
import type { Isolation, LimitReport, LimitSpec, ObservedUse, WorkspaceSpec } from './backend.ts'
import type {
  FileChange,
  FileContent,
  FileRange,
  InputTurn,
  JobControl,
  UploadSpec,
} from './boundary/boundary.ts'

/** Who asks, and with which grant; without one, a usable grant of theirs for the very request is looked up. */
export interface Caller {
  readonly operator: string
  readonly grantId?: string
  /** Aborts when the caller is gone: what was begun for them alone is given up, never a job. */
  readonly signal: AbortSignal
}

export const SANDBOX_STATES = ['creating', 'running', 'deleting', 'lost'] as const
/** `lost`: it ended without being told to; its folder is still there. */
export type SandboxState = (typeof SANDBOX_STATES)[number]

export interface CreateRequest {
  readonly name?: string
  readonly backend: 'process'
  /** The isolation asked for. `none` only when the caller named it. */
  readonly isolation: Isolation
  readonly workspace: WorkspaceSpec
  readonly limits: Partial<LimitSpec>
  readonly environment: Readonly<Record<string, string>>
  readonly policyEnvelopeId?: string
}

/** A sandbox as it is shown. No path of the host that the caller did not give. */
export interface SandboxView {
  readonly id: SandboxId
  readonly name: string
  readonly backend: string
  readonly state: SandboxState
  readonly isolation: Isolation
  readonly hostUid: number | null
  readonly workspace: WorkspaceSpec
  readonly limits: LimitSpec
  /** How each limit is held; null while it is being created. */
  readonly enforced: LimitReport | null
  readonly operator: string
  readonly policyEnvelopeId: string
  readonly createdAtMs: number
  /** Whether its sidecar is connected now. */
  readonly connected: boolean
  readonly runningJobs: number
  /** Why it is lost, or what it last complained of. */
  readonly notice: string | null
}

/** One whose record was changed outside Craik, or cannot be read: nothing else of it is believed. It can be deleted. */
interface DamagedSandbox {
  readonly id: SandboxId
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export interface SandboxManager {
  create(caller: Caller, request: CreateRequest): Promise<SandboxView>
  list(): Promise<readonly (SandboxView | DamagedSandbox)[]>
  /** By id, or by name. */
  get(idOrName: string): Promise<SandboxView>
  delete(caller: Caller, id: SandboxId): Promise<void>
  /** What happened to it, oldest first, then on as it happens while `follow`: lines of JSON. */
  events(id: SandboxId, follow: boolean, until: AbortSignal): AsyncIterable<SandboxEvent>
  readonly jobs: ManagedJobs
  readonly files: ManagedFiles
  readonly inside: ManagedInside
}

export interface SandboxEvent {
  readonly atMs: number
  /** Such as `created`, `connected`, `disconnected`, `job_started`, `job_ended`, `out_of_memory`, `refused`, `lost`. */
  readonly type: string
  readonly job?: string
  readonly message?: string
}

/**
 * Starting is decided. Reading, feeding, resizing and acknowledging belong to what was decided, and to who started it,
 * for as long as the grant of then lasts or another allows the same. Who started it may always cancel it.
 */
export interface ManagedJobs {
  start(caller: Caller, id: SandboxId, job: JobId, request: JobRequest): Promise<StartedJob>
  status(caller: Caller, id: SandboxId, job: JobId): Promise<JobStatus>
  list(caller: Caller, id: SandboxId): Promise<readonly JobStatus[]>
  output(caller: Caller, id: SandboxId, job: JobId, after: number): Promise<Readable>
  input(
    caller: Caller,
    id: SandboxId,
    job: JobId,
    part: {
      readonly offset: number
      readonly end: boolean
      readonly body: Readable
      readonly turn?: InputTurn
    },
  ): Promise<{ readonly offset: number }>
  acknowledge(caller: Caller, id: SandboxId, job: JobId, position: number): Promise<void>
  control(caller: Caller, id: SandboxId, job: JobId, what: JobControl): Promise<void>
  /** Ends it if it runs, and forgets its output. */
  cancel(caller: Caller, id: SandboxId, job: JobId): Promise<void>
}

export interface JobRequest {
  readonly spec: JobSpec
  /** A registered command: its argv is looked up in the transaction that decides, and `spec.argv` must be empty. */
  readonly commandRef?: string
}

export interface StartedJob {
  /** False when the id was known: it was not started again. */
  readonly created: boolean
  readonly receiptId: string
  readonly output: Readable
}

export interface ManagedFiles {
  read(caller: Caller, id: SandboxId, path: string, range: FileRange): Promise<FileContent>
  write(caller: Caller, id: SandboxId, upload: UploadSpec, offset: number, body: Readable): Promise<Upload>
  uploaded(caller: Caller, id: SandboxId, upload: string): Promise<Upload | undefined>
  stat(caller: Caller, id: SandboxId, path: string): Promise<FileStat>
  list(
    caller: Caller,
    id: SandboxId,
    path: string,
    after: string | undefined,
    limit: number,
  ): Promise<FileList>
  change(caller: Caller, id: SandboxId, change: FileChange): Promise<void>
  watch(caller: Caller, id: SandboxId, path: string, recursive: boolean, after: number): Promise<Readable>
}

export interface ManagedInside {
  /** Rejects, with a denial on record, when `connect` would be denied now. Nothing reaches the sandbox. */
  mayConnect(caller: Caller, id: SandboxId, port: number): Promise<void>
  connect(caller: Caller, id: SandboxId, port: number): Promise<Duplex>
  processes(caller: Caller, id: SandboxId): Promise<readonly ProcessInfo[]>
  signal(caller: Caller, id: SandboxId, pid: number, signal: string): Promise<void>
  stats(caller: Caller, id: SandboxId): Promise<SandboxStats>
}

/** `observed` by the host, `claimed` by the inside. */
interface SandboxStats {
  readonly observed: ObservedUse
  readonly claimed: Metrics
  readonly limits: LimitSpec
  readonly enforced: LimitReport
}
