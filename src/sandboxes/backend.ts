/** What a place to run things in can do. A backend is a folder with one exported object of this shape. */
import type { Duplex } from 'node:stream'
import type { SandboxId } from '../lib/ids.ts'
import type { SandboxDisks } from './sandbox-disks.ts'

/** As a caller names them. */
export const BACKEND_NAMES = ['process', 'docker'] as const
export type BackendName = (typeof BACKEND_NAMES)[number]

/** The seed's names for the kinds of place. */
export const BACKEND_KINDS = ['local_process', 'container', 'remote_shell', 'browser_tool'] as const
export type BackendKind = (typeof BACKEND_KINDS)[number]

/** Weakest first. `none`: the host itself. `process`: namespaces of its own (bubblewrap). */
export const ISOLATIONS = ['none', 'process', 'container', 'remote', 'browser'] as const
export type Isolation = (typeof ISOLATIONS)[number]

/** Which isolations each backend can be asked for. */
export const SUPPORTED_ISOLATION: Readonly<Record<BackendName, readonly Isolation[]>> = {
  process: ['process', 'none'],
  docker: ['container'],
}

export interface Availability {
  readonly isolation: Isolation
  /** Why it is no stronger, for a person. */
  readonly reason?: string
  /** The command that would improve it. */
  readonly fix?: string
  /** What provides it, such as `bubblewrap 0.8.0`. */
  readonly version?: string
}

/** A kind of place that lives until it is destroyed, and whose inside is reached through its boundary alone. */
export interface SandboxBackend {
  readonly kind: BackendKind
  /** The strongest it reaches on this machine, and what would make it stronger. */
  probe(): Promise<Availability>
  /** Of a backend with images: fixes what the container will be made of, before anything is decided or recorded. */
  plan?(request: ContainerRequest): Promise<ContainerSpec>
  /**
   * Starts it: the isolation asked for, or a refusal; never a weaker one. Nothing is left behind when it fails, but
   * for its disk: one that is there already, of a sandbox that was stopped, is used as it is.
   */
  create(spec: SandboxSpec): Promise<SandboxInstance>
  /** Finds a place again that an earlier process started; undefined when it runs no more. */
  recover(handle: InstanceHandle, spec: SandboxSpec): Promise<SandboxInstance | undefined>
  /** Where it runs when that is another home, with which this one shares its ids because one of them is a copy. */
  elsewhere?(handle: InstanceHandle, spec: SandboxSpec): Promise<OtherHome | undefined>
  /**
   * Removes whatever an interrupted create or destroy left of a place that is not to run. Idempotent. Touches nothing when
   * a place of this id runs in another home.
   */
  sweep(spec: SandboxSpec, handle: InstanceHandle | undefined): Promise<void>
  /** Removes the disk of a place that was swept, where that is not in its folder. Idempotent. */
  discard?(spec: SandboxSpec): Promise<void>
  /** Its places may be started before it is known whose they will be. Missing: each is started when it is asked for. */
  readonly pooled?: true
  /** Whether one that runs may be shown folders of the host, as far as can be known before one was. Missing: none. */
  readonly showsLate?: (container: ContainerSpec | null) => boolean
  /** Missing: its disks cannot be archived. */
  readonly disks?: SandboxDisks
  /** Ends what a process that is gone left of its looking around, in no place. Never touches what somebody living made. */
  endLeftovers?(): Promise<void>
}

export interface OtherHome {
  /** As far as it is known. */
  readonly path: string | undefined
}

export interface SandboxSpec {
  readonly id: SandboxId
  readonly isolation: Isolation
  /** The sandbox's own folder on the host, `sandboxes/<id>`: `data` (its disk), `socket`, and what the backend needs. */
  readonly folder: string
  readonly workspace: WorkspaceSpec
  /** Other folders of the host that it can read; only for backends with images. */
  readonly mounts?: readonly MountSpec[]
  /** What it keeps in its home beyond its own life. */
  readonly volumes?: readonly MountedVolume[]
  readonly limits: LimitSpec
  /** Ids of the agents' command lines that it is shown; only for backends without images. */
  readonly harnesses?: readonly string[]
  /** Of a place that nobody has asked for yet: what it may be shown once somebody has. Missing: nothing. */
  readonly late?: HotMountFolders
  /** Whose rights its programs have on the host; chosen when the sandbox is recorded, so that no two share one. */
  readonly hostUser: HostUser | undefined
  /** What the container is made of; only for backends with images. */
  readonly container?: ContainerSpec
}

export const CONTAINER_RUNTIMES = ['runc', 'runsc'] as const
/** How the one stream gets out: a socket of the host in a shared folder, or an engine exec of a relay per connection. */
export const CONTAINER_LINES = ['socket', 'relay'] as const
/** Where the disk is: a folder of the host, or, where the engine does not see the host's folders, a volume of its own. */
export const CONTAINER_STATES = ['folder', 'volume'] as const

/** What a caller may ask for; what they leave out is chosen by what the engine can do. */
export interface ContainerRequest {
  /** A name, a tag or an id; undefined: Craik's own image, built when it is not there. */
  readonly image?: string | undefined
  readonly runtime?: (typeof CONTAINER_RUNTIMES)[number] | undefined
  readonly line?: (typeof CONTAINER_LINES)[number] | undefined
  /** Ids of the agents' command lines that the image has to hold. */
  readonly harnesses?: readonly string[] | undefined
}

/** Fixed when the sandbox is recorded, and the same whenever it is started again. */
export interface ContainerSpec {
  /** The engine's id of the image, `sha256:…`: never a name, which may come to mean another. */
  readonly image: string
  /** As a person knows it. */
  readonly imageName: string
  readonly runtime: (typeof CONTAINER_RUNTIMES)[number]
  readonly line: (typeof CONTAINER_LINES)[number]
  readonly state: (typeof CONTAINER_STATES)[number]
  /** Which engine holds it, by the engine's own id: another one at the same address is not asked for it. */
  readonly engine: string
  /** Ids of the agents' command lines in the image; left out: none. */
  readonly harnesses?: readonly string[] | undefined
}

/** `copy`: a folder of its own, filled through the boundary. `in-place`: the caller's folder itself, writable. */
export type WorkspaceSpec = { readonly mode: 'copy' } | { readonly mode: 'in-place'; readonly folder: string }

/** A folder of the host, without links in its path, that is shown at `/mnt/NAME` and cannot be written there. */
export interface MountSpec {
  readonly folder: string
  readonly at: string
}

/** A folder of Craik's own that outlives sandboxes, and where in the home it is, such as `.local`. */
export interface VolumeSpec {
  readonly name: string
  readonly at: string
}

export interface MountedVolume extends VolumeSpec {
  /** Where it is on this machine. */
  readonly folder: string
}

/**
 * What of the logins of this machine a sandbox gets. `broker`: something in their shape that only the gateway takes, and
 * only from this sandbox. `forward`: they themselves. `none`: nothing.
 */
export const CREDENTIAL_MODES = ['broker', 'forward', 'none'] as const
export type CredentialMode = (typeof CREDENTIAL_MODES)[number]

/** Which folders of the host a place can be shown though it runs already. */
export interface HotMountFolders {
  /** The workspace itself, in place. */
  readonly workspace: boolean
  readonly mounts: boolean
}

/** As a caller names them. No container has any but the first. */
export const NETWORKS = ['none', 'restricted', 'bridge'] as const
/** As a caller names them. No mount has any but the first. */
export const MOUNT_MODES = ['read_only', 'read_write'] as const
/** What a caller names as the image to mean Craik's own. */
export const OWN_IMAGE = 'craik'

/** Whether it is named after all that goes into it: what has the same name was made of the same. */
export function isOwnImageName(name: string): boolean {
  return /^craik\/sandbox:[0-9a-f]{12}$/.test(name)
}

/** undefined: the one that Craik runs as. */
export interface HostUser {
  readonly uid: number
  readonly gid: number
}

export interface LimitSpec {
  readonly memoryBytes: number
  readonly processes: number
  /** Thousandths of a core; undefined: all there are. */
  readonly cpuMillis?: number
  readonly diskBytes?: number
}

/** How a limit is held. Never implied: what is not enforced says so. */
export const ENFORCEMENTS = [
  'cgroup',
  'sandbox',
  'per-process',
  'filesystem',
  'not-enforced',
  'not-asked',
] as const
type Enforcement = (typeof ENFORCEMENTS)[number]
export type LimitReport = Readonly<Record<'memory' | 'processes' | 'cpu' | 'disk', Enforcement>>

/** What a later process needs to find the place again; plain JSON, kept in the sandbox's record. */
export type InstanceHandle = Readonly<Record<string, string | number>>

export interface SandboxInstance {
  readonly handle: InstanceHandle
  readonly isolation: Isolation
  readonly hostUid: number
  readonly limits: LimitReport
  readonly line: InstanceConnection
  /** Settles when nothing runs in it any more, whoever ended it; says why as far as that is known. */
  readonly ended: Promise<string>
  /** What the host itself sees of it; a figure that it cannot see is missing. */
  observe(): Promise<ObservedUse>
  /** Nothing in it runs, and nothing is lost, until `unpause`. Missing: it cannot be paused here. Both are idempotent. */
  readonly pause?: () => Promise<void>
  readonly unpause?: () => Promise<void>
  /**
   * Of a place that was started with `late`, once: shows it the folders of the sandbox that it becomes, whole and only
   * after they were looked at, or fails; then it is to be destroyed. Refuses what `create` refuses, with the same error.
   */
  readonly show?: (spec: SandboxSpec) => Promise<void>
  /** Ends everything in it and removes what holds it (cgroups, mounts), not the folder or volume with its disk. Idempotent. */
  destroy(): Promise<void>
}

/**
 * How the boundary's stream is had. `socket`: the host listens in the folder, and the sidecar dials it again and again.
 * `dial`: the host makes each connection.
 */
export type InstanceConnection =
  | { readonly kind: 'socket'; readonly folder: string }
  | { readonly kind: 'dial'; readonly dial: (until: AbortSignal) => Promise<DialledStream> }

/** Counts what goes through it, as a socket does. */
export type DialledStream = Duplex & { readonly bytesRead: number; readonly bytesWritten: number }

export interface ObservedUse {
  readonly memoryBytes?: number
  readonly cpuMs?: number
  readonly processes?: number
  readonly diskBytes?: number
  /** How often the kernel ended something in it for want of memory. */
  readonly outOfMemoryKills?: number
}
