/** What the rooms above ask of the sandboxes: every call is decided, receipted and only then done. */
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

/** Who asks, and with which grant; without one, a usable grant of theirs for the very request is looked up. */
export interface ManagerCaller {
  readonly operator: string
  readonly grantId?: string
  /** Aborts when the caller is gone: what was begun for them alone is given up, never a job. */
  readonly signal: AbortSignal
}

export interface CreateRequest {
  readonly name?: string
  readonly backend: BackendName
  /** The isolation asked for. `none` only when the caller named it. */
  readonly isolation: Isolation
  /** Without it, a copy. A container's request says it, as it says everything else up to `container.image`. */
  readonly workspace?: WorkspaceSpec
  readonly limits: Partial<LimitSpec>
  readonly environment?: Readonly<Record<string, string>>
  /** Without it, `none`. */
  readonly credentials?: CredentialMode
  /** Agents' command lines that it is to have, by name. */
  readonly harnesses?: readonly string[]
  readonly network?: (typeof NETWORKS)[number]
  readonly mounts?: readonly (MountSpec & { readonly mode: (typeof MOUNT_MODES)[number] })[]
  /** Each belongs to one sandbox at a time, and is made when it is first asked for. */
  readonly volumes?: readonly VolumeSpec[]
  /** Only for backends with images. */
  readonly container?: ContainerRequest
  readonly policyEnvelopeId?: string
  /** A snapshot, by id or name: its disk becomes that of the sandbox, and what is left out above is as it says. */
  readonly from?: string
  /** The sandbox that this is a fork of, whose mounts it keeps; never from a client. */
  readonly forkOf?: SandboxId
  /** What is left out has its default; null: never. */
  readonly ends?: Partial<SandboxEnds>
}

/** When it is stopped and, once it is, removed without being told to; null: never. */
export interface SandboxEnds {
  /** So long after anything last happened in it. */
  readonly idleMs: number | null
  /** So long after it was started. */
  readonly lifetimeMs: number | null
  /** Removed, with its disk, so long after it was stopped. */
  readonly keepMs: number | null
}

export interface StopRequest {
  /** How long its jobs have after SIGTERM; 0: none are asked. */
  readonly graceMs?: number
}

export interface SnapshotRequest {
  readonly name?: string
}

export interface ForkRequest {
  readonly name?: string
  /** A snapshot of the sandbox, by id or name; without one it is made now. */
  readonly from?: string
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
  /** Other folders of the host that it can read. */
  readonly mounts: readonly (MountSpec & { readonly mode: 'read_only' })[]
  /** What it keeps in its home beyond its own life, and where there. */
  readonly volumes: readonly VolumeSpec[]
  /** What it is made of, when it is a container. */
  readonly container: Omit<ContainerSpec, 'engine' | 'harnesses'> | null
  readonly harnesses: readonly { readonly name: string; readonly version: string }[]
  readonly credentials: CredentialMode
  /** The logins that it was given when it last began to run; null: none was put in place since Craik itself did. */
  readonly accounts: readonly { readonly id: string; readonly who: string | null }[] | null
  readonly limits: LimitSpec
  /** How each limit is held; null while it is being created. */
  readonly enforced: LimitReport | null
  readonly operator: string
  readonly policyEnvelopeId: string
  readonly createdAtMs: number
  readonly ends: SandboxEnds
  /** When something last happened in it, to within a minute; null while it is created. */
  readonly activeAtMs: number | null
  readonly startedAtMs: number | null
  readonly stoppedAtMs: number | null
  /** When it will be stopped if nothing happens in it until then; null: not by itself. */
  readonly stopsAtMs: number | null
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
  create(caller: ManagerCaller, request: CreateRequest): Promise<SandboxView>
  list(): Promise<readonly (SandboxView | DamagedSandbox)[]>
  /** What all of them may have together, and how much of it is taken. */
  capacity(): Promise<readonly Capacity[]>
  /** By id, or by name. */
  get(idOrName: string): Promise<SandboxView>
  /** Nothing runs afterwards; disk, policy and grants stay. One that is stopped already is left as it is. */
  stop(caller: ManagerCaller, id: SandboxId, request?: StopRequest): Promise<SandboxView>
  /** Starts it again on its disk, or lets a paused one go on. */
  resume(caller: ManagerCaller, id: SandboxId): Promise<SandboxView>
  /** Everything in it stands still until it is resumed. */
  pause(caller: ManagerCaller, id: SandboxId): Promise<SandboxView>
  /** Its disk is archived, and what it is made of pinned; what runs in it stands still meanwhile where it can. */
  snapshot(caller: ManagerCaller, id: SandboxId, request?: SnapshotRequest): Promise<SnapshotView>
  /** Its disk is that of the snapshot afterwards; it runs if it ran. */
  restore(caller: ManagerCaller, id: SandboxId, snapshotIdOrName: string): Promise<SandboxView>
  /** Another sandbox with the same disk, limits and policy, and without its logins. */
  fork(caller: ManagerCaller, id: SandboxId, request?: ForkRequest): Promise<SandboxView>
  delete(caller: ManagerCaller, id: SandboxId): Promise<void>
  /** API keys from the environment of who asks count as logins of this machine, in place of those offered before. */
  offerKeys(keys: Readonly<Record<string, string>>, until: AbortSignal): Promise<void>
  /** What happened to it, oldest first, then on as it happens while `follow`: lines of JSON. */
  events(id: SandboxId, follow: boolean, until: AbortSignal): AsyncIterable<SandboxEvent>
  readonly jobs: ManagedJobs
  readonly files: ManagedFiles
  readonly inside: ManagedProcesses
  readonly snapshots: ManagedSnapshots
  readonly volumes: ManagedVolumes
}

/** A volume as it is shown. */
export interface VolumeView {
  readonly name: string
  /** What it takes on the disk of this machine; null when that takes too long to find out. */
  readonly sizeBytes: number | null
  /** The name of the sandbox that has it; null: none. */
  readonly usedBy: string | null
  readonly createdAtMs: number
}

export interface ManagedVolumes {
  list(until: AbortSignal): Promise<readonly VolumeView[]>
  /** Refused while a sandbox has it. */
  delete(caller: ManagerCaller, name: string): Promise<void>
}

/** A snapshot as it is shown. */
export interface SnapshotView {
  readonly id: SnapshotId
  readonly name: string
  /** Of everything in it. */
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
  /** The names of the environment's variables, whose values are in it. */
  readonly variables: readonly string[]
  readonly content: SnapshotManifest['content']
  readonly archiveBytes: number
}

/** One whose record was changed outside Craik: nothing else of it is believed. */
interface DamagedSnapshot {
  readonly id: string
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export interface ManagedSnapshots {
  list(): Promise<readonly (SnapshotView | DamagedSnapshot)[]>
  /** By id, or by name. */
  get(idOrName: string): Promise<SnapshotView>
  delete(caller: ManagerCaller, idOrName: string): Promise<SnapshotId>
  /** All of it as one file. Its receipt ends with the stream. */
  open(caller: ManagerCaller, idOrName: string): Promise<OpenedSnapshot>
  /** Sends the same file to where the destination says. */
  export(caller: ManagerCaller, idOrName: string, destination: ExportRequest): Promise<Exported>
  /** Nothing is listed before all of it was checked. */
  import(caller: ManagerCaller, body: Readable, request: ImportRequest): Promise<SnapshotView>
}

export interface OpenedSnapshot {
  readonly view: SnapshotView
  readonly bytes: number
  readonly body: Readable
}

export interface ImportRequest {
  /** Without one, as it is called in the file. */
  readonly name?: string
  /** What `craik snapshot show` said of it where it comes from. */
  readonly digest?: string
}

export interface ExportRequest {
  /** `https://…` or `s3://bucket/key`. */
  readonly destination: string
  /** Of the S3-compatible store; without one, Amazon's own. */
  readonly endpoint?: string
  readonly region?: string
  /** Names of secrets. */
  readonly accessKeyRef?: string
  readonly secretKeyRef?: string
  readonly sessionTokenRef?: string
  /** Also to addresses that are not of the public internet. */
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
 * Starting is decided. Reading, feeding, resizing and acknowledging belong to what was decided, and to who started it,
 * for as long as the grant of then lasts or another allows the same. Who started it may always cancel it.
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
  /** Ends it if it runs, and forgets its output. */
  cancel(caller: ManagerCaller, id: SandboxId, job: JobId): Promise<void>
}

export interface JobRequest {
  readonly spec: JobSpec
  /** A registered command: its argv is looked up in the transaction that decides, and `spec.argv` must be empty. */
  readonly commandRef?: string
  /** It is ended when nobody has read it or fed it for so long; without it, it goes on. */
  readonly endsWhenLeftMs?: number
}

export interface StartedJob {
  /** False when the id was known: it was not started again. */
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
  /** Rejects, with a denial on record, when `connect` would be denied now. Nothing reaches the sandbox. */
  mayConnect(caller: ManagerCaller, id: SandboxId, port: number): Promise<void>
  connect(caller: ManagerCaller, id: SandboxId, port: number): Promise<Duplex>
  processes(caller: ManagerCaller, id: SandboxId): Promise<readonly ProcessInfo[]>
  signal(caller: ManagerCaller, id: SandboxId, pid: number, signal: string): Promise<void>
  /** Puts in place what it gets of the logins of this machine, as they are now; tells their names. */
  putLogins(caller: ManagerCaller, id: SandboxId): Promise<readonly string[]>
  stats(caller: ManagerCaller, id: SandboxId): Promise<SandboxStats>
}

/** `observed` by the host, `claimed` by the inside. */
interface SandboxStats {
  readonly observed: ObservedUse
  readonly claimed: Metrics
  readonly limits: LimitSpec
  readonly enforced: LimitReport
}
