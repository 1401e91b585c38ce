/**
 * What the host and the sidecar say to each other: HTTP/2 over one duplex stream, the host asks, the sidecar answers.
 * Only types, names and limits; both ends import it and nothing else of each other.
 *
 * GET    /hello                                   Hello
 * PUT    /jobs/:id?attach=0|1&age=MS              JobSpec → 201 | 200 (same id, same spec: it runs once), frames when
 *                                                 attached. 410: it may have run since it was first asked for, `age` ago
 * GET    /jobs                                    { jobs: JobStatus[] }
 * GET    /jobs/:id                                JobStatus
 * GET    /jobs/:id/output?after=POSITION          frames from there on, until the exit frame
 * POST   /jobs/:id/input?offset=N&end=0|1&turn=ID&take=0|1  raw bytes from that offset of the input → { offset }. One
 *                                                 sender at a time, whose `turn` it is; `take` takes over, and whoever
 *                                                 had the turn is answered 412 at once, with the offset that arrived
 * POST   /jobs/:id/ack?position=N                 the reader has everything before N: it may be dropped
 * POST   /jobs/:id/signal    { signal }
 * POST   /jobs/:id/resize    { cols, rows }
 * DELETE /jobs/:id                                ends it if it runs, then forgets it
 * GET    /files/content?path&offset&length&etag   raw bytes; headers etag, content-length, craik-size. 412: it changed
 * PUT    /files/content?path&upload&offset&size&mode  raw bytes → { offset, committed }; renamed into place when whole
 * GET    /files/upload?upload                     { offset, committed }
 * GET    /files/stat?path · /files/list?path&after&limit
 * POST   /files/move { from, to } · /files/remove { path, recursive } · /files/mkdir { path, parents }
 * GET    /files/watch?path&recursive&after        lines of JSON WatchEvent
 * POST   /ports/:port                             a duplex stream to 127.0.0.1:port inside; 200 once it is connected
 * PUT    /logins { files: LoginFile[] }           each by way of a tmpfs to its place in the home; without content it goes
 * GET    /processes · POST /processes/:pid/signal { signal }
 * GET    /metrics                                 Metrics
 * POST   /accept                                  a duplex stream held open by the host: when something inside connects
 *                                                 to the sidecar's loopback port, the sidecar answers 200 and joins it
 *
 * An error is a status of 400 and above with JSON `{ code, message, offset? }`; `code` is one of `SidecarErrorCode`.
 */

/** Both ends must say the same number. */
export const PROTOCOL_VERSION = 1
export const PROTOCOL_HEADER = 'craik-protocol'

/** Where things are inside, in every kind of sandbox that has a root file system of its own. */
export const INSIDE = {
  home: '/workspace/home',
  workspace: '/workspace/home/project',
  /** The folder with the host's socket, shown read-only. */
  socketFolder: '/run/craik',
  socketName: 'host.sock',
  /** Where the sidecar itself listens when nothing of the host can be shown: in a tmpfs of its own. */
  listenSocket: '/run/craik/sidecar.sock',
  /** Node, the bundle, `pty.node`, and the compile cache, shown read-only. */
  runtime: '/opt/craik',
  /** The agents' command lines, a folder each with its programs in `bin`; read-only. */
  harnesses: '/opt/craik-harnesses',
  /** Those that were added to one that runs: in its home. */
  addedHarnesses: '.local/share/craik-harnesses',
  /** The same as the loopback port, for programs that take a socket. */
  gatewaySocket: '/run/gateway.sock',
  /** Where logins pass through; in a tmpfs. */
  logins: '/run/secrets',
} as const

/** The sidecar's loopback port inside, which leads to the host's gateway. */
export const GATEWAY_PORT = 8118

/** Told to the sidecar by its environment; none of it is secret. Children do not inherit these names. */
export const SIDECAR_ENV = {
  /** The socket to dial, e.g. /run/craik/host.sock. */
  socket: 'CRAIK_SOCKET',
  /** The socket to listen on instead of dialling: each connection of the host comes through a relay. */
  listen: 'CRAIK_LISTEN',
  home: 'CRAIK_HOME_INSIDE',
  workspace: 'CRAIK_WORKSPACE',
  /** The loopback port; 0: any free one (isolation `none`). */
  gatewayPort: 'CRAIK_GATEWAY_PORT',
  /** Where spilled output goes: on the sandbox's own disk. */
  spill: 'CRAIK_SPILL',
} as const

/** Never taken, by the sidecar or by a job: a token here would be an identity beside the one that was chosen. */
export const REFUSED_VARIABLES: readonly string[] = ['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN']

/** What the sidecar's Node is started with: a small nursery keeps an idle or busy sidecar small. */
export const SIDECAR_NODE_FLAGS: readonly string[] = ['--max-semi-space-size=1']

export const LIMITS = {
  /** Windows of HTTP/2. Each paused stream pins its window, so the large one is for file copies only. */
  streamWindowBytes: 256 * 1024,
  copyWindowBytes: 8 * 1024 * 1024,
  /**
   * In MB: what Node counts for one HTTP/2 session before it refuses new streams. Node never subtracts what a cancelled stream
   * still had to write (24.21: 463 such streams of 200 kB fill 32 MB), so a real bound would close the session for good. The
   * number of streams and what is written to each are bounded here and in `line.ts`.
   */
  sessionMemoryMb: 1_000_000,
  /** Written at one end and not taken yet; the other end's window lets half of it wait, and one that does not keep to that is waited for. */
  waitingBytes: 16 * 1024 * 1024,
  jsonBytes: 1024 * 1024,
  argvBytes: 512 * 1024,
  envBytes: 256 * 1024,
  pathBytes: 4096,
  /** Jobs that run, and jobs that ended and are still remembered. */
  runningJobs: 256,
  endedJobs: 256,
  endedJobKeepMs: 15 * 60_000,
  /** What jobs that ended keep on the disk together; above it the oldest keep only the end of their output. */
  endedSpillBytes: 1024 * 1024 * 1024,
  /** Jobs that pack or unpack at a time, and how long one goes on that nobody reads or feeds. */
  archiveJobs: 8,
  archiveIdleMs: 2 * 60_000,
  /** Of a job's log, what is kept in memory before it goes to the sandbox's disk. */
  logMemoryBytes: 256 * 1024,
  /** A terminal keeps this much and then drops its oldest output. */
  terminalMemoryBytes: 1024 * 1024,
  /** A job with a window stalls when this much is not acknowledged. */
  windowBytes: 4 * 1024 * 1024,
  /** A job whose reader acknowledges is held up when it is so far ahead of it. */
  aheadBytes: 64 * 1024 * 1024,
  /** Unless a job says otherwise: of what is kept of it and not acknowledged. */
  defaultOutputBytes: 1024 * 1024 * 1024,
  maxOutputBytes: 16 * 1024 * 1024 * 1024,
  maxTimeoutMs: 7 * 24 * 3600_000,
  listEntries: 1000,
  watchEvents: 10_000,
  uploads: 64,
  acceptStreams: 8,
  /** Connections to the loopback port that wait for an accept stream. */
  waitingConnections: 128,
  aliveEveryMs: 5_000,
  /** That are put in their places at a time. */
  loginFiles: 32,
} as const

export interface Hello {
  readonly protocol: number
  /** Craik's version that the bundle was built from. */
  readonly version: string
  /** Of this run of the sidecar: another value means that jobs of the former run are gone. */
  readonly instance: string
  readonly startedAtMs: number
  readonly home: string
  readonly workspace: string
  readonly gatewayPort: number
  readonly pty: boolean
}

/** A login, or what stands for one, that programs inside look for. */
export interface LoginFile {
  /** While it passes through, such as `anthropic_token`. */
  readonly name: string
  /** Relative to the home. */
  readonly to: string
  /** Null: it is to be gone. */
  readonly content: string | null
  /** A setting and no login: put there only where there is nothing yet, and its owner may write it. */
  readonly setting?: boolean
}

export type JobSpec = ExecSpec | TerminalSpec | TarInSpec | TarOutSpec

interface Runnable {
  readonly argv: readonly string[]
  /** Absolute, or relative to the workspace. Default: the workspace. */
  readonly cwd?: string
  /** Added to the sandbox's own. */
  readonly env?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

export interface ExecSpec extends Runnable {
  readonly kind: 'exec'
  /** Without it standard input is empty. */
  readonly stdin?: boolean
  /**
   * Standard output and error together; more ends the job (`output_limit`). Without it only what no reader has
   * acknowledged counts.
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
  /** Of the program that unpacks, as for any other. */
  readonly env?: Readonly<Record<string, string>>
}

/** Packs a file or folder as a tar archive into the job's output; keeps a window, so the reader has to acknowledge. */
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
  /** Why it was not started: ENOENT or EACCES of the program, ENOTDIR of the folder to work in, E2BIG. */
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
  /** Bytes of input that arrived; where the next input continues. */
  readonly inputOffset: number
  readonly inputEnded: boolean
  readonly readers: number
  /** It is held up: the sandbox's disk takes no more of its output, and nobody reads it. */
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
  /** Give it as `after` to read on. */
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
  /** The job it belongs to, as far as it can be told. */
  readonly job?: string
}

/** All of it is what the inside says of itself. */
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
 * `busy`: no more jobs, uploads or processes; `full`: no space left; `changed`: the file is another one by now, or
 * the input another's; `gone`: the job is over and forgotten, or may be.
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
