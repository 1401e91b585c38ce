/** What the API answers with. Types only; `docs/operator-api.md` shows them at work. */
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
}

export interface SupervisorBody extends VersionBody {
  readonly started_at_ms: number
  readonly draining: boolean
  readonly sandboxes: number
  /** Open connections, this one included. */
  readonly connections: number
  readonly memory_bytes: number
  /** How long it stays when there is nothing left to hold. */
  readonly idle_ms: number
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

export interface SandboxBody {
  readonly id: string
  readonly name: string
  readonly backend: string
  readonly state: 'creating' | 'running' | 'deleting' | 'lost'
  readonly isolation: string
  readonly host_uid: number | null
  readonly workspace: { readonly mode: 'copy' } | { readonly mode: 'in-place'; readonly folder: string }
  readonly limits: LimitsBody
  readonly enforced: EnforcedBody | null
  readonly operator: string
  readonly policy_envelope_id: string
  readonly created_at_ms: number
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
