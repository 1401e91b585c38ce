/**
 * The host's end of the one stream into a sandbox. It decides nothing: the manager does, before it calls this. It
 * trusts nothing that comes back, counts by itself what it opens and what crosses, and never waits without a deadline.
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
  /** What it opened and what crossed since it was made; counted here, whatever anybody else writes down. */
  counts(): BoundaryCounts
  /** Settles when the stream is gone, and says why (the sidecar redials and a new boundary follows). */
  readonly closed: Promise<string>
  close(): Promise<void>
}

/** Of two who feed a job, who took over last: the other one's request ends with `changed`, and so does each later one. */
export interface BoundaryInput {
  /** Chosen by the sender, the same for each of its requests. */
  readonly id: string
  /** Otherwise it goes on, unless somebody has taken over. */
  readonly take: boolean
}

export interface BoundaryJobs {
  /**
   * Starts it, or finds it when the id is known there (`created: false`). The output is a stream of frames from 0.
   * `ageMs`: since when it may have been asked for; what may have run meanwhile and is forgotten is not run again.
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
  /** Resolves with the offset that has arrived, when the body is through. Without a turn it takes over. */
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
 * The frames of a job's log, unchanged, in chunks of any size. It ends after the exit frame and nowhere else: when
 * the sidecar breaks off it fails with `boundary_failed`, and a reader resumes from its own position.
 */
export interface JobOutput extends Readable {
  /** After the last whole frame that was seen. */
  readonly position: number
  /** What the exit frame claims, once it was seen. */
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
  /** Lines of JSON, each a `WatchEvent`. */
  watch(path: string, recursive: boolean, after: number, until: AbortSignal): Promise<Readable>
}

export interface FileRange {
  readonly offset: number
  readonly length?: number
  /** Fails with `conflict` when the file is another one by now. */
  readonly etag?: string
}

export interface FileContent {
  readonly etag: string
  /** Of the whole file. */
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
  /** A stream to a loopback port inside. */
  connect(port: number, until: AbortSignal): Promise<Duplex>
  processes(until: AbortSignal): Promise<readonly ProcessInfo[]>
  signal(pid: number, signal: string, until: AbortSignal): Promise<void>
  /** Puts logins in their places. */
  putLogins(files: readonly LoginFile[], until: AbortSignal): Promise<void>
  metrics(until: AbortSignal): Promise<Metrics>
  /** For whoever wants to see them; `BoundaryJobs.list` is the host's own look after what it began. */
  jobs(until: AbortSignal): Promise<readonly JobStatus[]>
}

/** Operations opened, by name, and bytes towards and from the sandbox. */
export interface BoundaryCounts {
  readonly jobs: number
  readonly reads: number
  readonly writes: number
  readonly forwards: number
  readonly looks: number
  readonly signals: number
  /** From inside, through accept streams. */
  readonly connections: number
  readonly bytesIn: number
  readonly bytesOut: number
}

/** What the host does with a connection from inside. Called with the stream already joined. */
export type InboundHandler = (stream: Duplex, isSurplus?: boolean) => void
