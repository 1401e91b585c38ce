/** The interface of the sandbox manager. It first decides every call, then begins its receipt, and only then acts. */
import type { Duplex, Readable } from 'node:stream'
import type { JobId, SandboxId, SnapshotId } from '../lib/ids.ts'
import type {
  FileList,
  FileStat,
  JobSpec,
  JobStatus,
  Metrics,
  ProcessInfo,
  Upload,
} from '../sidecar/protocol.ts'
import type {
  BackendName,
  ContainerRequest,
  ContainerSpec,
  CredentialMode,
  Isolation,
  LimitReport,
  LimitSpec,
  MOUNT_MODES,
  MountSpec,
  NETWORKS,
  ObservedUse,
  VolumeSpec,
  WorkspaceSpec,
} from './backend.ts'
import type {
  BoundaryInput,
  FileChange,
  FileContent,
  FileRange,
  JobControl,
  UploadSpec,
} from './boundary/boundary.ts'
import type { Capacity } from './lifecycle/admission.ts'
import type { SandboxState } from './lifecycle/transitions.ts'
import type { SnapshotManifest } from './snapshots/snapshot-manifest.ts'

/**
 * The operator who makes the request, and the grant to use. Without a grant id, the manager looks for a usable grant of
 * the operator.
 */
export interface ManagerCaller {
  readonly operator: string
  readonly grantId?: string
  /** Aborts when the caller disconnects. Work for this caller alone is then given up, but never a job. */
  readonly signal: AbortSignal
}

export interface CreateRequest {
  readonly name?: string
  readonly backend: BackendName
  /** The requested isolation. `none` only if the caller named it. */
  readonly isolation: Isolation
  /** The default is a copy. A request for a container must set this field and the others up to `container.image`. */
  readonly workspace?: WorkspaceSpec
  readonly limits: Partial<LimitSpec>
  readonly environment?: Readonly<Record<string, string>>
  /** The default is `none`. */
  readonly credentials?: CredentialMode
  /** The names of the harnesses to mount. */
  readonly harnesses?: readonly string[]
  readonly network?: (typeof NETWORKS)[number]
  readonly mounts?: readonly (MountSpec & { readonly mode: (typeof MOUNT_MODES)[number] })[]
  /** A volume belongs to one sandbox at a time. It is created on first use. */
  readonly volumes?: readonly VolumeSpec[]
  /** Only for backends with images. */
  readonly container?: ContainerRequest
  readonly policyEnvelopeId?: string
  /**
   * The id or name of a snapshot. The sandbox starts with the snapshot's disk, and missing fields above default to the
   * snapshot's values.
   */
  readonly from?: string
  /** The sandbox that this one is a fork of. The fork keeps its mounts. Never set by a client. */
  readonly forkOf?: SandboxId
  /** Missing fields have their defaults. Null means never. */
  readonly ends?: Partial<SandboxEnds>
}

/** When Craik stops the sandbox without a request, and when it removes the stopped sandbox. Null means never. */
export interface SandboxEnds {
  /** Stopped this long after the last activity. */
  readonly idleMs: number | null
  /** Stopped this long after its start. */
  readonly lifetimeMs: number | null
  /** Removed, with its disk, this long after it stopped. */
  readonly keepMs: number | null
}

export interface StopRequest {
  /** How long its jobs get after SIGTERM. With 0, they get no SIGTERM. */
  readonly graceMs?: number
}

export interface SnapshotRequest {
  readonly name?: string
}

export interface ForkRequest {
  readonly name?: string
  /** The id or name of a snapshot of the sandbox. If missing, Craik takes one now. */
  readonly from?: string
}

/** A sandbox as shown to clients. Contains no host path except those that the caller passed. */
export interface SandboxView {
  readonly id: SandboxId
  readonly name: string
  readonly backend: string
  readonly state: SandboxState
  readonly isolation: Isolation
  readonly hostUid: number | null
  readonly workspace: WorkspaceSpec
  /** Other host folders that the sandbox can read. */
  readonly mounts: readonly (MountSpec & { readonly mode: 'read_only' })[]
  /** The volumes, which outlive the sandbox, and their locations in its home. */
  readonly volumes: readonly VolumeSpec[]
  /** The resolved image and runtime of the container. Null for other backends. */
  readonly container: Omit<ContainerSpec, 'engine' | 'harnesses'> | null
  readonly harnesses: readonly { readonly name: string; readonly version: string }[]
  readonly credentials: CredentialMode
  /** The logins that it got when it last started. Null when Craik has not copied any since Craik itself started. */
  readonly accounts: readonly { readonly id: string; readonly who: string | null }[] | null
  readonly limits: LimitSpec
  /** How each limit is enforced. Null while the sandbox is being created. */
  readonly enforced: LimitReport | null
  readonly operator: string
  readonly policyEnvelopeId: string
  readonly createdAtMs: number
  readonly ends: SandboxEnds
  /** The time of the last activity, to within a minute. Null while the sandbox is being created. */
  readonly activeAtMs: number | null
  readonly startedAtMs: number | null
  readonly stoppedAtMs: number | null
  /** When Craik stops it unless something happens in it. Null when it does not stop by itself. */
  readonly stopsAtMs: number | null
  /** Whether its sidecar is connected now. */
  readonly connected: boolean
  readonly runningJobs: number
  /** Why it is lost, or the last problem that it reported. */
  readonly notice: string | null
}

/**
 * A sandbox whose record was changed outside Craik, or cannot be read. Craik trusts nothing else in the record. It can
 * be deleted.
 */
interface DamagedSandbox {
  readonly id: SandboxId
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export interface SandboxManager {
  create(caller: ManagerCaller, request: CreateRequest): Promise<SandboxView>
  list(): Promise<readonly (SandboxView | DamagedSandbox)[]>
  /** Returns the total limits of all sandboxes, and how much of each is in use. */
  capacity(): Promise<readonly Capacity[]>
  /** Finds a sandbox by id or name. */
  get(idOrName: string): Promise<SandboxView>
  /** Stops everything in the sandbox. Its disk, policy and grants stay. Does nothing if it is stopped already. */
  stop(caller: ManagerCaller, id: SandboxId, request?: StopRequest): Promise<SandboxView>
  /** Starts a stopped sandbox on its disk, or continues a paused one. */
  resume(caller: ManagerCaller, id: SandboxId): Promise<SandboxView>
  /** Freezes everything in the sandbox until it is resumed. */
  pause(caller: ManagerCaller, id: SandboxId): Promise<SandboxView>
  /** Archives the disk and pins the image. The sandbox's processes are frozen meanwhile where that is possible. */
  snapshot(caller: ManagerCaller, id: SandboxId, request?: SnapshotRequest): Promise<SnapshotView>
  /** Replaces the disk with that of the snapshot. A running sandbox runs again afterwards. */
  restore(caller: ManagerCaller, id: SandboxId, snapshotIdOrName: string): Promise<SandboxView>
  /** Creates another sandbox with the same disk, limits and policy, but without the logins. */
  fork(caller: ManagerCaller, id: SandboxId, request?: ForkRequest): Promise<SandboxView>
  delete(caller: ManagerCaller, id: SandboxId): Promise<void>
  /** Adds API keys from the caller's environment to the host's logins. They replace the keys of the previous call. */
  offerKeys(keys: Readonly<Record<string, string>>, until: AbortSignal): Promise<void>
  /** Returns the sandbox's events as lines of JSON, oldest first. With `follow`, continues with new ones. */
  events(id: SandboxId, follow: boolean, until: AbortSignal): AsyncIterable<SandboxEvent>
  readonly jobs: ManagedJobs
  readonly files: ManagedFiles
  readonly inside: ManagedProcesses
  readonly snapshots: ManagedSnapshots
  readonly volumes: ManagedVolumes
}

/** A volume as shown to clients. */
export interface VolumeView {
  readonly name: string
  /** The space that it uses on the host's disk. Null when measuring it takes too long. */
  readonly sizeBytes: number | null
  /** The name of the sandbox that uses it. Null when none does. */
  readonly usedBy: string | null
  readonly createdAtMs: number
}

export interface ManagedVolumes {
  list(until: AbortSignal): Promise<readonly VolumeView[]>
  /** Refuses while a sandbox uses the volume. */
  delete(caller: ManagerCaller, name: string): Promise<void>
}

/** A snapshot as shown to clients. */
export interface SnapshotView {
  readonly id: SnapshotId
  readonly name: string
  /** The digest of the whole snapshot. */
  readonly digest: string
  readonly createdAtMs: number
  readonly createdBy: 'user' | 'auto'
  readonly imported: boolean
  readonly operator: string
  readonly policyEnvelopeId: string
  readonly origin: { readonly sandboxId: string; readonly name: string }
  readonly backend: BackendName
  readonly image: { readonly id: string; readonly name: string } | null
  readonly isolation: Isolation
  readonly workspace: 'copy' | 'in-place'
  readonly limits: LimitSpec
  /** The names of the environment variables, whose values the snapshot contains. */
  readonly variables: readonly string[]
  readonly content: SnapshotManifest['content']
  readonly archiveBytes: number
}

/** A snapshot whose record was changed outside Craik. Craik trusts nothing else in the record. */
interface DamagedSnapshot {
  readonly id: string
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export interface ManagedSnapshots {
  list(): Promise<readonly (SnapshotView | DamagedSnapshot)[]>
  /** Finds a snapshot by id or name. */
  get(idOrName: string): Promise<SnapshotView>
  delete(caller: ManagerCaller, idOrName: string): Promise<SnapshotId>
  /** Opens the whole snapshot as one file. Its receipt ends with the stream. */
  open(caller: ManagerCaller, idOrName: string): Promise<OpenedSnapshot>
  /** Sends the same file to the destination. */
  export(caller: ManagerCaller, idOrName: string, destination: ExportRequest): Promise<Exported>
  /** Checks the whole file before the snapshot is listed. */
  import(caller: ManagerCaller, body: Readable, request: ImportRequest): Promise<SnapshotView>
}

export interface OpenedSnapshot {
  readonly view: SnapshotView
  readonly bytes: number
  readonly body: Readable
}

export interface ImportRequest {
  /** The default is the name in the file. */
  readonly name?: string
  /** The digest that `craik snapshot show` printed where the snapshot comes from. */
  readonly digest?: string
}

export interface ExportRequest {
  /** `https://…` or `s3://bucket/key`. */
  readonly destination: string
  /** The endpoint of an S3-compatible store. The default is Amazon's. */
  readonly endpoint?: string
  readonly region?: string
  /** Names of secrets. */
  readonly accessKeyRef?: string
  readonly secretKeyRef?: string
  readonly sessionTokenRef?: string
  /** Also allows addresses that are not of the public internet. */
  readonly allowPrivateAddress?: boolean
}

export interface Exported {
  readonly host: string
  readonly bytes: number
  readonly digest: string
  readonly receiptId: string
}

export interface SandboxEvent {
  readonly atMs: number
  /** Such as `created`, `connected`, `disconnected`, `job_started`, `job_ended`, `out_of_memory`, `refused`, `lost`. */
  readonly type: string
  readonly job?: string
  readonly message?: string
}

/**
 * A decision is needed to start a job. Reading, feeding, resizing and acknowledging need no new one. They are allowed
 * for the operator who started the job, as long as its grant lasts or another grant allows the same. That operator may
 * always cancel the job.
 */
export interface ManagedJobs {
  start(caller: ManagerCaller, id: SandboxId, job: JobId, request: JobRequest): Promise<StartedJob>
  status(caller: ManagerCaller, id: SandboxId, job: JobId): Promise<JobStatus>
  list(caller: ManagerCaller, id: SandboxId): Promise<readonly JobStatus[]>
  output(caller: ManagerCaller, id: SandboxId, job: JobId, after: number): Promise<Readable>
  input(
    caller: ManagerCaller,
    id: SandboxId,
    job: JobId,
    part: {
      readonly offset: number
      readonly end: boolean
      readonly body: Readable
      readonly turn?: BoundaryInput
    },
  ): Promise<{ readonly offset: number }>
  acknowledge(caller: ManagerCaller, id: SandboxId, job: JobId, position: number): Promise<void>
  control(caller: ManagerCaller, id: SandboxId, job: JobId, what: JobControl): Promise<void>
  /** Ends the job if it runs, and deletes its output. */
  cancel(caller: ManagerCaller, id: SandboxId, job: JobId): Promise<void>
}

export interface JobRequest {
  readonly spec: JobSpec
  /** A registered command. The deciding transaction reads its argv, and `spec.argv` must be empty. */
  readonly commandRef?: string
  /** Craik ends the job when no client has read or fed it for this time. If missing, the job continues. */
  readonly endsWhenLeftMs?: number
}

export interface StartedJob {
  /** False when the id was known, so that the job was not started again. */
  readonly created: boolean
  readonly receiptId: string
  readonly output: Readable
}

export interface ManagedFiles {
  read(caller: ManagerCaller, id: SandboxId, path: string, range: FileRange): Promise<FileContent>
  write(
    caller: ManagerCaller,
    id: SandboxId,
    upload: UploadSpec,
    offset: number,
    body: Readable,
  ): Promise<Upload>
  getUpload(caller: ManagerCaller, id: SandboxId, upload: string): Promise<Upload | undefined>
  stat(caller: ManagerCaller, id: SandboxId, path: string): Promise<FileStat>
  list(
    caller: ManagerCaller,
    id: SandboxId,
    path: string,
    after: string | undefined,
    limit: number,
  ): Promise<FileList>
  change(caller: ManagerCaller, id: SandboxId, change: FileChange): Promise<void>
  watch(
    caller: ManagerCaller,
    id: SandboxId,
    path: string,
    recursive: boolean,
    after: number,
  ): Promise<Readable>
}

export interface ManagedProcesses {
  /** Rejects, with a denial on record, when `connect` would be denied now. Sends nothing to the sandbox. */
  mayConnect(caller: ManagerCaller, id: SandboxId, port: number): Promise<void>
  connect(caller: ManagerCaller, id: SandboxId, port: number): Promise<Duplex>
  processes(caller: ManagerCaller, id: SandboxId): Promise<readonly ProcessInfo[]>
  signal(caller: ManagerCaller, id: SandboxId, pid: number, signal: string): Promise<void>
  /** Copies the host's current logins that the sandbox gets into it. Returns their names. */
  putLogins(caller: ManagerCaller, id: SandboxId): Promise<readonly string[]>
  stats(caller: ManagerCaller, id: SandboxId): Promise<SandboxStats>
}

/** The host measures `observed`. The sandbox reports `claimed`. */
interface SandboxStats {
  readonly observed: ObservedUse
  readonly claimed: Metrics
  readonly limits: LimitSpec
  readonly enforced: LimitReport
}
