/** The types of the API's responses. `docs/reference/operator-api.md` has examples. */
import type {
  FileList,
  FileStat,
  JobOutcome,
  JobStatus,
  Metrics,
  ProcessInfo,
  WatchEvent,
} from '../../sidecar/protocol.ts'
import type { SnakeCase } from './snake-case.ts'

export interface ErrorBody {
  /** A message for the user that says what failed. */
  readonly error: string
  /** One of the codes in `docs/reference/errors.md`. */
  readonly code: string
  readonly hint: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly retry_after_ms?: number
}

export interface VersionBody {
  readonly api: number
  readonly version: string
  /** Differs when the code differs. */
  readonly build: string
  /** The time of the last change to that code. Of two builds of one version, the later one is newer. */
  readonly built_at_ms: number
  readonly pid: number
  /** False while the supervisor takes over the sandboxes of its predecessor. */
  readonly ready: boolean
  /** True when the files that it was started from are missing. It can then load no more of them. */
  readonly program_gone: boolean
  /** The user's programs that it can execute on the host, by name. An earlier version does not send them. */
  readonly programs?: readonly string[]
}

export interface SupervisorBody extends VersionBody {
  readonly started_at_ms: number
  readonly draining: boolean
  readonly sandboxes: number
  /** Sandbox instances that wait for a sandbox in the warm pool. */
  readonly warm: number
  /** The open connections, including this one. */
  readonly connections: number
  readonly memory_bytes: number
  /** How long it keeps running when nothing uses it. */
  readonly idle_ms: number
  /**
   * The engine that the environment named at the start. Null when it named none, so that the supervisor searches the
   * usual locations.
   */
  readonly engine: string | null
}

export interface LimitsBody {
  readonly memory_bytes: number
  readonly processes: number
  readonly cpu_millis?: number
  readonly disk_bytes?: number
}

export interface EnforcedBody {
  readonly memory: string
  readonly processes: string
  readonly cpu: string
  readonly disk: string
}

interface ContainerBody {
  /** The engine's id of the image. For a running container, the id of the image that it runs. */
  readonly image: string
  readonly image_name: string
  readonly runtime: string
  readonly line: string
  readonly state: string
}

/** When Craik stops the sandbox, and when it removes the stopped sandbox, without a request. Null means never. */
export interface EndsBody {
  readonly idle_ms: number | null
  readonly lifetime_ms: number | null
  readonly keep_ms: number | null
}

export interface SandboxBody {
  readonly id: string
  readonly name: string
  readonly backend: string
  readonly state:
    | 'creating'
    | 'running'
    | 'pausing'
    | 'paused'
    | 'stopping'
    | 'stopped'
    | 'resuming'
    | 'snapshotting'
    | 'restoring'
    | 'deleting'
    | 'lost'
  readonly isolation: string
  readonly host_uid: number | null
  readonly workspace: { readonly mode: 'copy' } | { readonly mode: 'in-place'; readonly folder: string }
  /** Other folders of the host that the sandbox can read. */
  readonly mounts: readonly { readonly folder: string; readonly at: string; readonly mode: 'read_only' }[]
  /** The volumes, which outlive the sandbox, and their paths in the sandbox home. */
  readonly volumes: readonly { readonly name: string; readonly at: string }[]
  /** The image and the runtime of a container. Null for other backends. */
  readonly container: ContainerBody | null
  /** The agent CLIs in the sandbox. */
  readonly harnesses: readonly { readonly name: string; readonly version: string }[]
  /** The host logins that the sandbox receives. */
  readonly credentials: 'broker' | 'forward' | 'none'
  /**
   * The logins that the sandbox received at its last start. Null when none was put in place since the supervisor
   * started.
   */
  readonly accounts: readonly { readonly id: string; readonly who: string | null }[] | null
  readonly limits: LimitsBody
  readonly enforced: EnforcedBody | null
  readonly operator: string
  readonly policy_envelope_id: string
  readonly created_at_ms: number
  readonly ends: EndsBody
  /** The time of the last activity, accurate to a minute. */
  readonly active_at_ms: number | null
  readonly started_at_ms: number | null
  readonly stopped_at_ms: number | null
  /** When Craik stops the sandbox if there is no activity until then. Null when it does not stop by itself. */
  readonly stops_at_ms: number | null
  readonly connected: boolean
  readonly running_jobs: number
  readonly notice: string | null
}

/** Its record was changed outside Craik, so the API reports nothing else about it. */
interface DamagedSandboxBody {
  readonly id: string
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export type ListedSandboxBody = SandboxBody | DamagedSandboxBody

/** One of the limits for all sandboxes together. */
export interface CapacityBody {
  readonly limit: 'sandboxes' | 'running' | 'memory_bytes' | 'cpu_millis' | 'disk_bytes'
  readonly in_use: number
  readonly most: number
}

export interface SnapshotBody {
  readonly id: string
  readonly name: string
  /** The digest of the whole content. */
  readonly digest: string
  readonly created_at_ms: number
  /** `auto` when Craik created it for a fork. It is then removed with the fork. */
  readonly created_by: 'user' | 'auto'
  readonly imported: boolean
  readonly operator: string
  readonly policy_envelope_id: string
  readonly origin: { readonly sandbox_id: string; readonly name: string }
  readonly backend: string
  /**
   * The pinned image. A sandbox from this snapshot gets exactly this image, or one that Craik built from the same
   * parts.
   */
  readonly image: { readonly id: string; readonly name: string } | null
  readonly isolation: string
  readonly workspace: 'copy' | 'in-place'
  readonly limits: LimitsBody
  /** The names of the environment's variables. The snapshot contains their values. */
  readonly variables: readonly string[]
  readonly content: {
    readonly files: number
    readonly folders: number
    readonly links: number
    readonly bytes: number
    readonly skipped: number
    /** The number of skipped files for each reason. */
    readonly skipped_for?: readonly { readonly reason: string; readonly count: number }[] | undefined
    /** True when all processes were frozen, or none ran, while Craik read the disk. */
    readonly still: boolean
    readonly changed: number
  }
  readonly archive_bytes: number
}

/** Its record was changed outside Craik, so the API reports nothing else about it. */
interface DamagedSnapshotBody {
  readonly id: string
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export type ListedSnapshotBody = SnapshotBody | DamagedSnapshotBody

/** A folder that outlives the sandboxes that use it. */
export interface VolumeBody {
  readonly name: string
  /** Its size on the host's disk. Null when it took too long to measure. */
  readonly size_bytes: number | null
  /** The name of the sandbox that uses it. Null when none does. */
  readonly used_by: string | null
  readonly created_at_ms: number
}

export interface ExportedBody {
  /** The host that received the snapshot. */
  readonly host: string
  readonly bytes: number
  readonly digest: string
  readonly receipt_id: string
}

export interface SandboxEventBody {
  readonly at_ms: number
  readonly type: string
  readonly job?: string
  readonly message?: string
}

export interface StatsBody {
  /** Measured on the host. */
  readonly observed: {
    readonly memory_bytes?: number
    readonly cpu_ms?: number
    readonly processes?: number
    readonly disk_bytes?: number
    readonly out_of_memory_kills?: number
  }
  /** Reported by the sandbox. */
  readonly claimed: SnakeCase<Metrics>
  readonly limits: LimitsBody
  readonly enforced: EnforcedBody
}

/** The encoding is `base64` when the bytes are not UTF-8. */
export interface CapturedBody {
  readonly encoding: 'utf8' | 'base64'
  readonly data: string
  readonly truncated: boolean
}

export interface ExecBody {
  readonly job_id: string
  readonly receipt_id: string
  readonly outcome: JobOutcome
  readonly exit_code: number | null
  readonly signal: string | null
  /** Why the command did not start. */
  readonly error?: string
  readonly duration_ms: number
  readonly stdout: CapturedBody
  readonly stderr: CapturedBody
}

export type JobBody = SnakeCase<JobStatus>
export type FileBody = SnakeCase<FileStat>
export type FileListBody = SnakeCase<FileList>
export type ProcessBody = SnakeCase<ProcessInfo>
export type WatchBody = WatchEvent

export interface UploadBody {
  readonly offset: number
  readonly committed: boolean
}
