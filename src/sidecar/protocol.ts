/**
 * The protocol between the host and the sidecar: HTTP/2 over one duplex stream. The host sends requests, and the
 * sidecar answers them. This file contains only types, names and limits. Both ends import it, and nothing else of each
 * other.
 *
 * - GET /hello → Hello
 *
 * Jobs:
 * - PUT /jobs/:id?attach=0|1&age=MS, with a JobSpec → 201, or 200 for the same id and spec, which runs only once. With
 * `attach`, the response is the job's frames. 410: it may have run since its first request, `age` ago
 * - GET /jobs → { jobs: JobStatus[] }
 * - GET /jobs/:id → JobStatus
 * - GET /jobs/:id/output?after=POSITION → frames from that position on, until the exit frame
 * - POST /jobs/:id/input?offset=N&end=0|1&turn=ID&take=0|1, with raw bytes from that offset of the input → { offset }.
 * Only the sender that has the `turn` can send. With `take`, a request takes the turn, and the previous sender gets 412
 * at once, with the offset that arrived
 * - POST /jobs/:id/ack?position=N: the reader has everything before N, which may be dropped
 * - POST /jobs/:id/signal { signal }
 * - POST /jobs/:id/resize { cols, rows }
 * - DELETE /jobs/:id ends the job if it runs, and then forgets it
 *
 * Files:
 * - GET /files/content?path&offset&length&etag → raw bytes, with the headers etag, content-length and craik-size. 412:
 * the file changed
 * - PUT /files/content?path&upload&offset&size&mode, with raw bytes → { offset, committed }. The file is renamed into
 * place when it is complete
 * - GET /files/upload?upload → { offset, committed }
 * - GET /files/stat?path
 * - GET /files/list?path&after&limit
 * - POST /files/move { from, to }
 * - POST /files/remove { path, recursive }
 * - POST /files/mkdir { path, parents }
 * - GET /files/watch?path&recursive&after → lines of JSON, each a WatchEvent
 *
 * Connections, logins and processes:
 * - POST /ports/:port → 200 when it is connected, then a duplex stream to 127.0.0.1:port in the sandbox
 * - POST /accept: a duplex stream that the host holds open. When a program connects to the sidecar's loopback port, the
 * sidecar answers 200 and joins the two
 * - PUT /logins { files: LoginFile[] }: each passes through a tmpfs and is installed in the home. A login without
 * content is removed
 * - GET /processes
 * - POST /processes/:pid/signal { signal }
 * - GET /metrics → Metrics
 *
 * An error has a status of 400 or above, with JSON `{ code, message, offset? }`. `code` is one of `SidecarErrorCode`.
 */

/** Both ends must send the same number. */
export const PROTOCOL_VERSION = 1
export const PROTOCOL_HEADER = 'craik-protocol'

/** The paths in every sandbox that has a root file system of its own. */
export const INSIDE = {
  home: '/workspace/home',
  workspace: '/workspace/home/project',
  /** The folder with the host's socket, mounted read-only. */
  socketFolder: '/run/craik',
  socketName: 'host.sock',
  /** The sidecar's own socket, when no socket of the host can be mounted. It is in a tmpfs. */
  listenSocket: '/run/craik/sidecar.sock',
  /** Contains Node, the bundle, `pty.node` and the compile cache, mounted read-only. */
  runtime: '/opt/craik',
  /** Contains the agents' command-line programs, each in a folder with its programs in `bin`. It is read-only. */
  harnesses: '/opt/craik-harnesses',
  /** Contains the harnesses that were added to a running sandbox. It is in the sandbox's home. */
  addedHarnesses: '.local/share/craik-harnesses',
  /** Leads to the gateway like the loopback port, for programs that use a Unix socket. */
  gatewaySocket: '/run/gateway.sock',
  /** Logins pass through this folder, which is in a tmpfs. */
  logins: '/run/secrets',
} as const

/** The sidecar's loopback port in the sandbox, which leads to the host's gateway. */
export const GATEWAY_PORT = 8118

/** The variables that configure the sidecar. None of them is secret. Children do not inherit these names. */
export const SIDECAR_ENV = {
  /** The socket to connect to, such as /run/craik/host.sock. */
  socket: 'CRAIK_SOCKET',
  /** The socket to listen on instead of connecting to one. Each connection of the host then comes through a relay. */
  listen: 'CRAIK_LISTEN',
  home: 'CRAIK_HOME_INSIDE',
  workspace: 'CRAIK_WORKSPACE',
  /** The loopback port. Port 0 selects any free one (isolation `none`). */
  gatewayPort: 'CRAIK_GATEWAY_PORT',
  /** The folder of spilled output, on the sandbox's own disk. */
  spill: 'CRAIK_SPILL',
} as const

/** Neither the sidecar nor a job accepts these. A token here would be an identity besides the chosen one. */
export const REFUSED_VARIABLES: readonly string[] = ['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN']

/** The flags of the sidecar's Node. A small nursery keeps the memory of an idle or busy sidecar small. */
export const SIDECAR_NODE_FLAGS: readonly string[] = ['--max-semi-space-size=1']

export const LIMITS = {
  /** The HTTP/2 windows. Each paused stream pins its window, so only file copies use the large one. */
  streamWindowBytes: 256 * 1024,
  copyWindowBytes: 8 * 1024 * 1024,
  /**
   * In MB: the memory that Node counts for one HTTP/2 session before it refuses new streams. Node never subtracts what
   * a cancelled stream still had to write. In 24.21, 463 such streams of 200 kB fill 32 MB, so a real limit would close
   * the session for good. This file and `connection.ts` limit the number of streams and what is written to each.
   */
  sessionMemoryMb: 1_000_000,
  /**
   * The most bytes that one end has written and the other has not read. The other end's window allows half of it. If an
   * end ignores its window, the writer waits for it.
   */
  waitingBytes: 16 * 1024 * 1024,
  jsonBytes: 1024 * 1024,
  argvBytes: 512 * 1024,
  envBytes: 256 * 1024,
  pathBytes: 4096,
  /** The limits of running jobs, and of jobs that have ended and are still known. */
  runningJobs: 256,
  endedJobs: 256,
  endedJobKeepMs: 15 * 60_000,
  /** The disk limit of all ended jobs together. Above it, the oldest keep only the end of their output. */
  endedSpillBytes: 1024 * 1024 * 1024,
  /** The limit of jobs that pack or unpack at a time, and how long one continues without a reader or sender. */
  archiveJobs: 8,
  archiveIdleMs: 2 * 60_000,
  /** How much of a job's log stays in memory before it goes to the sandbox's disk. */
  logMemoryBytes: 256 * 1024,
  /** A terminal keeps this much output and then drops the oldest. */
  terminalMemoryBytes: 1024 * 1024,
  /** A job with a window stalls when this much output is not acknowledged. */
  windowBytes: 4 * 1024 * 1024,
  /** A job is paused when it is this far ahead of a reader that acknowledges. */
  aheadBytes: 64 * 1024 * 1024,
  /** The limit of stored and unacknowledged output, unless a job sets its own limit. */
  defaultOutputBytes: 1024 * 1024 * 1024,
  maxOutputBytes: 16 * 1024 * 1024 * 1024,
  maxTimeoutMs: 7 * 24 * 3600_000,
  listEntries: 1000,
  watchEvents: 10_000,
  uploads: 64,
  acceptStreams: 8,
  /** The limit of connections to the loopback port that wait for an accept stream. */
  waitingConnections: 128,
  aliveEveryMs: 5_000,
  /** The limit of logins that one request installs. */
  loginFiles: 32,
} as const

export interface Hello {
  readonly protocol: number
  /** The version of Craik that the bundle was built from. */
  readonly version: string
  /** Identifies this run of the sidecar. If it changes, the jobs of the former run are gone. */
  readonly instance: string
  readonly startedAtMs: number
  readonly home: string
  readonly workspace: string
  readonly gatewayPort: number
  readonly pty: boolean
}

/** A login, or a placeholder for one, that programs in the sandbox use. */
export interface LoginFile {
  /** The name of the temporary file, such as `anthropic_token`. */
  readonly name: string
  /** The path of the login, relative to the home. */
  readonly to: string
  /** Null removes the login. */
  readonly content: string | null
  /**
   * True for a setting, which is not a login. It is installed only if the file does not exist, and its owner may write
   * it.
   */
  readonly setting?: boolean
}

export type JobSpec = ExecSpec | TerminalSpec | TarInSpec | TarOutSpec

interface Runnable {
  readonly argv: readonly string[]
  /** An absolute path, or one relative to the workspace. The default is the workspace. */
  readonly cwd?: string
  /** Variables that are added to those of the sandbox. */
  readonly env?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

export interface ExecSpec extends Runnable {
  readonly kind: 'exec'
  /** Without it, standard input is empty. */
  readonly stdin?: boolean
  /**
   * The limit of standard output and error together. A job that exceeds it is ended (`output_limit`). Without it, only
   * output that no reader has acknowledged counts.
   */
  readonly maxOutputBytes?: number
}

export interface TerminalSpec extends Runnable {
  readonly kind: 'terminal'
  readonly cols: number
  readonly rows: number
  /** The value of TERM. */
  readonly term?: string
}

/** Unpacks a tar archive from the job's input into a folder. */
interface TarInSpec {
  readonly kind: 'tar-in'
  readonly path: string
  /** The variables of the program that unpacks, as for any other program. */
  readonly env?: Readonly<Record<string, string>>
}

/**
 * Packs a file or folder as a tar archive into the job's output. It keeps a window, so the reader has to acknowledge.
 */
interface TarOutSpec {
  readonly kind: 'tar-out'
  readonly path: string
  readonly env?: Readonly<Record<string, string>>
}

export const JOB_OUTCOMES = [
  'exited',
  'signalled',
  'timeout',
  'output_limit',
  'out_of_memory',
  'not_started',
  'cancelled',
] as const
export type JobOutcome = (typeof JOB_OUTCOMES)[number]

export interface JobResult {
  readonly outcome: JobOutcome
  readonly exitCode: number | null
  readonly signal: string | null
  /** The reason why the program was not started: its ENOENT or EACCES, ENOTDIR for the working folder, or E2BIG. */
  readonly error?: string
  readonly stdoutBytes: number
  readonly stderrBytes: number
  readonly stdinBytes: number
  readonly durationMs: number
}

export interface JobStatus {
  readonly id: string
  readonly kind: JobSpec['kind']
  readonly state: 'running' | 'ended'
  readonly pid: number | null
  readonly startedAtMs: number
  /** The log reaches from `first` (older bytes are gone) to `position`. */
  readonly first: number
  readonly position: number
  /** The number of input bytes that arrived, which is where the next input continues. */
  readonly inputOffset: number
  readonly inputEnded: boolean
  readonly readers: number
  /** The job is paused: the sandbox's disk takes no more of its output, and there is no reader. */
  readonly waiting?: 'disk'
  readonly result?: JobResult
}

export interface FileStat {
  readonly path: string
  readonly type: 'file' | 'folder' | 'link' | 'socket' | 'fifo' | 'device'
  readonly bytes: number
  readonly mode: number
  readonly modifiedAtMs: number
  readonly target?: string
}

export interface FileList {
  readonly path: string
  readonly entries: readonly FileStat[]
  /** Pass it as `after` to get the next page. */
  readonly next?: string
}

export interface Upload {
  readonly offset: number
  readonly committed: boolean
}

export interface WatchEvent {
  readonly seq: number
  readonly type: 'created' | 'changed' | 'removed' | 'gap'
  readonly path: string
}

export interface ProcessInfo {
  readonly pid: number
  readonly parent: number
  readonly name: string
  readonly state: string
  readonly cpuMs: number
  readonly memoryBytes: number
  readonly startedAtMs: number
  /** The job that the process belongs to, if it can be determined. */
  readonly job?: string
}

/** All values are the sandbox's own report about itself. */
export interface Metrics {
  readonly cpuMs: number
  readonly memoryBytes: number
  readonly processes: number
  readonly diskUsedBytes: number
  readonly diskFreeBytes: number
  readonly sidecarMemoryBytes: number
  readonly runningJobs: number
  readonly openConnections: number
}

/**
 * `busy`: no more jobs, uploads or processes. `full`: no space left. `changed`: the file has changed, or another sender
 * has taken over the input. `gone`: the job is over and forgotten, or may be.
 */
export const SIDECAR_ERROR_CODES = [
  'usage',
  'not_found',
  'conflict',
  'gone',
  'too_large',
  'refused',
  'busy',
  'full',
  'changed',
  'protocol',
  'internal',
] as const
export type SidecarErrorCode = (typeof SIDECAR_ERROR_CODES)[number]
