/**
 * The host's end of the one stream into a sandbox. It decides nothing: the manager decides before it calls this. It
 * trusts nothing that the sandbox sends, counts what it opens and what crosses, and never waits without a deadline.
 */
import type { Duplex, Readable } from 'node:stream'
import type { JobId } from '../../lib/ids.ts'
import type {
  FileList,
  FileStat,
  Hello,
  JobResult,
  JobSpec,
  JobStatus,
  LoginFile,
  Metrics,
  ProcessInfo,
  Upload,
} from '../../sidecar/protocol.ts'

export interface Boundary {
  readonly hello: Hello
  readonly jobs: BoundaryJobs
  readonly files: BoundaryFiles
  readonly inside: SandboxInspection
  /**
   * Returns what this boundary opened and what crossed it since its creation. The host counts this itself, independent
   * of any other record.
   */
  counts(): BoundaryCounts
  /** Resolves with the reason when the stream is gone. The sidecar then connects again, and a new boundary follows. */
  readonly closed: Promise<string>
  close(): Promise<void>
}

/**
 * Identifies which of two senders feeds a job: the one that took over last. The pending request of the other ends with
 * `changed`, and so does each later one.
 */
export interface BoundaryInput {
  /** The sender chooses this id and uses it for all of its requests. */
  readonly id: string
  /** If true, the sender takes over. Otherwise it continues, unless another sender has taken over. */
  readonly take: boolean
}

export interface BoundaryJobs {
  /**
   * Starts a job, or finds it if the sidecar has a job with this id (`created: false`). The output is a stream of
   * frames from position 0. `ageMs` is the time since the job may first have been requested. The sidecar refuses a job
   * that may have run in that time and been forgotten.
   */
  start(
    id: JobId,
    spec: JobSpec,
    until: AbortSignal,
    ageMs?: number,
  ): Promise<{ readonly created: boolean; readonly output: JobOutput }>
  status(id: JobId, until: AbortSignal): Promise<JobStatus | undefined>
  list(until: AbortSignal): Promise<readonly JobStatus[]>
  output(id: JobId, after: number, until: AbortSignal): Promise<JobOutput>
  /** Resolves with the offset that arrived, when the whole body is sent. A request without a turn takes over. */
  input(
    id: JobId,
    offset: number,
    body: Readable,
    end: boolean,
    until: AbortSignal,
    turn?: BoundaryInput,
  ): Promise<{ readonly offset: number }>
  acknowledge(id: JobId, position: number, until: AbortSignal): Promise<void>
  control(id: JobId, what: JobControl, until: AbortSignal): Promise<void>
  forget(id: JobId, until: AbortSignal): Promise<void>
}

/**
 * The frames of a job's log, unchanged, in chunks of any size. The stream ends only after the exit frame. When the
 * sidecar breaks off, it fails with `boundary_failed`, and the reader resumes from its own position.
 */
export interface JobOutput extends Readable {
  /** The position after the last whole frame that was seen. */
  readonly position: number
  /** The result that the exit frame claims, after that frame was seen. */
  readonly result: JobResult | undefined
}

export type JobControl = { readonly signal: string } | { readonly cols: number; readonly rows: number }

export interface BoundaryFiles {
  read(path: string, range: FileRange, until: AbortSignal): Promise<FileContent>
  write(upload: UploadSpec, offset: number, body: Readable, until: AbortSignal): Promise<Upload>
  getUpload(upload: string, until: AbortSignal): Promise<Upload | undefined>
  stat(path: string, until: AbortSignal): Promise<FileStat>
  list(path: string, after: string | undefined, limit: number, until: AbortSignal): Promise<FileList>
  change(change: FileChange, until: AbortSignal): Promise<void>
  /** Returns lines of JSON, each a `WatchEvent`. */
  watch(path: string, recursive: boolean, after: number, until: AbortSignal): Promise<Readable>
}

export interface FileRange {
  readonly offset: number
  readonly length?: number
  /** Reading fails with `conflict` if the file has changed since. */
  readonly etag?: string
}

export interface FileContent {
  readonly etag: string
  /** The size of the whole file. */
  readonly bytes: number
  readonly body: Readable
}

export interface UploadSpec {
  readonly upload: string
  readonly path: string
  readonly bytes: number
  readonly mode: number
}

export type FileChange =
  | { readonly kind: 'move'; readonly from: string; readonly to: string }
  | { readonly kind: 'remove'; readonly path: string; readonly recursive: boolean }
  | { readonly kind: 'mkdir'; readonly path: string; readonly parents: boolean }

export interface SandboxInspection {
  /** Opens a stream to a loopback port in the sandbox. */
  connect(port: number, until: AbortSignal): Promise<Duplex>
  processes(until: AbortSignal): Promise<readonly ProcessInfo[]>
  signal(pid: number, signal: string, until: AbortSignal): Promise<void>
  /** Writes login files to their paths in the sandbox. */
  putLogins(files: readonly LoginFile[], until: AbortSignal): Promise<void>
  metrics(until: AbortSignal): Promise<Metrics>
  /** Lists the jobs for a user. The host uses `BoundaryJobs.list` to follow the jobs that it started itself. */
  jobs(until: AbortSignal): Promise<readonly JobStatus[]>
}

/** The number of operations by name, and of bytes to and from the sandbox. */
export interface BoundaryCounts {
  readonly jobs: number
  readonly reads: number
  readonly writes: number
  readonly forwards: number
  readonly looks: number
  readonly signals: number
  /** Connections from the sandbox, through accept streams. */
  readonly connections: number
  readonly bytesIn: number
  readonly bytesOut: number
}

/** Handles a connection from the sandbox. The stream is already joined when this is called. */
export type InboundHandler = (stream: Duplex, isSurplus?: boolean) => void
