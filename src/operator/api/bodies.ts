/** What the API answers with. Types only; `docs/reference/operator-api.md` shows them at work. */
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
  /** What was being done to what, for a person. */
  readonly error: string
  /** One of the codes of `docs/reference/errors.md`. */
  readonly code: string
  readonly hint: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly retry_after_ms?: number
}

export interface VersionBody {
  readonly api: number
  readonly version: string
  /** Another value: other code. */
  readonly build: string
  /** When that code was last changed; of two builds of one version the later is the newer. */
  readonly built_at_ms: number
  readonly pid: number
  /** False while it takes over the sandboxes of the one before. */
  readonly ready: boolean
  /** The files that it was started from are gone: what it has not read yet it cannot read any more. */
  readonly program_gone: boolean
  /** Programs of the user's that it can execute on the host, by name; an earlier version does not say. */
  readonly programs?: readonly string[]
}

export interface SupervisorBody extends VersionBody {
  readonly started_at_ms: number
  readonly draining: boolean
  readonly sandboxes: number
  /** Places that wait for a sandbox. */
  readonly warm: number
  /** Open connections, this one included. */
  readonly connections: number
  readonly memory_bytes: number
  /** How long it stays when there is nothing left to hold. */
  readonly idle_ms: number
  /** The engine that the environment named when it was started; null: none, so that it looks where they usually are. */
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
  /** The engine's own id of the image; while it runs, of the one that it runs. */
  readonly image: string
  readonly image_name: string
  readonly runtime: string
  readonly line: string
  readonly state: string
}

/** When it is stopped and, once it is, removed without being told to; null: never. */
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
  /** Other folders of the machine that it can read. */
  readonly mounts: readonly { readonly folder: string; readonly at: string; readonly mode: 'read_only' }[]
  /** What it keeps in its home beyond its own life, and where there. */
  readonly volumes: readonly { readonly name: string; readonly at: string }[]
  /** What it is made of, when it is a container. */
  readonly container: ContainerBody | null
  /** Agents' command lines in it. */
  readonly harnesses: readonly { readonly name: string; readonly version: string }[]
  /** What it gets of the logins of this machine. */
  readonly credentials: 'broker' | 'forward' | 'none'
  /** Those that it was given when it last began to run; null: none was put in place since the supervisor began. */
  readonly accounts: readonly { readonly id: string; readonly who: string | null }[] | null
  readonly limits: LimitsBody
  readonly enforced: EnforcedBody | null
  readonly operator: string
  readonly policy_envelope_id: string
  readonly created_at_ms: number
  readonly ends: EndsBody
  /** When something last happened in it, to within a minute. */
  readonly active_at_ms: number | null
  readonly started_at_ms: number | null
  readonly stopped_at_ms: number | null
  /** When it will be stopped if nothing happens in it until then; null: not by itself. */
  readonly stops_at_ms: number | null
  readonly connected: boolean
  readonly running_jobs: number
  readonly notice: string | null
}

/** Its record was changed outside Craik, so that nothing else of it is told. */
interface DamagedSandboxBody {
  readonly id: string
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export type ListedSandboxBody = SandboxBody | DamagedSandboxBody

/** One of the limits of all sandboxes together. */
export interface CapacityBody {
  readonly limit: 'sandboxes' | 'running' | 'memory_bytes' | 'cpu_millis' | 'disk_bytes'
  readonly in_use: number
  readonly most: number
}

export interface SnapshotBody {
  readonly id: string
  readonly name: string
  /** Of everything in it. */
  readonly digest: string
  readonly created_at_ms: number
  /** `auto`: for a fork, and removed with it. */
  readonly created_by: 'user' | 'auto'
  readonly imported: boolean
  readonly operator: string
  readonly policy_envelope_id: string
  readonly origin: { readonly sandbox_id: string; readonly name: string }
  readonly backend: string
  /** Pinned: what is made from it has this very image, or one of Craik’s that was made of the same. */
  readonly image: { readonly id: string; readonly name: string } | null
  readonly isolation: string
  readonly workspace: 'copy' | 'in-place'
  readonly limits: LimitsBody
  /** The names of the environment's variables, whose values are in it. */
  readonly variables: readonly string[]
  readonly content: {
    readonly files: number
    readonly folders: number
    readonly links: number
    readonly bytes: number
    readonly skipped: number
    /** Of those left out, how many for which reason. */
    readonly skipped_for?: readonly { readonly reason: string; readonly count: number }[] | undefined
    /** Whether everything stood still, or nothing ran, while it was read. */
    readonly still: boolean
    readonly changed: number
  }
  readonly archive_bytes: number
}

/** Its record was changed outside Craik, so that nothing else of it is told. */
interface DamagedSnapshotBody {
  readonly id: string
  readonly name: string
  readonly state: 'damaged'
  readonly notice: string
}

export type ListedSnapshotBody = SnapshotBody | DamagedSnapshotBody

/** A folder that outlives the sandboxes that have it. */
export interface VolumeBody {
  readonly name: string
  /** What it takes on the disk of the machine; null: it took too long to find out. */
  readonly size_bytes: number | null
  /** The name of the sandbox that has it; null: none. */
  readonly used_by: string | null
  readonly created_at_ms: number
}

export interface ExportedBody {
  /** Where it went. */
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
  /** Seen by the host. */
  readonly observed: {
    readonly memory_bytes?: number
    readonly cpu_ms?: number
    readonly processes?: number
    readonly disk_bytes?: number
    readonly out_of_memory_kills?: number
  }
  /** Said by the inside. */
  readonly claimed: SnakeCase<Metrics>
  readonly limits: LimitsBody
  readonly enforced: EnforcedBody
}

/** `base64` when the bytes are not UTF-8. */
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
  /** Why it was not started. */
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
