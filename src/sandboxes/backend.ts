/** The interface of sandbox backends. A backend is a folder with one exported object of this shape. */
import type { Duplex } from 'node:stream'
import type { SandboxId } from '../lib/ids.ts'
import type { SandboxDisks } from './sandbox-disks.ts'

/** The names that callers use. */
export const BACKEND_NAMES = ['process', 'docker'] as const
export type BackendName = (typeof BACKEND_NAMES)[number]

/** The seed's names for the kinds of backend. */
export const BACKEND_KINDS = ['local_process', 'container', 'remote_shell', 'browser_tool'] as const
export type BackendKind = (typeof BACKEND_KINDS)[number]

/** Sorted from the weakest. `none` is the host itself. `process` means separate namespaces (bubblewrap). */
export const ISOLATIONS = ['none', 'process', 'container', 'remote', 'browser'] as const
export type Isolation = (typeof ISOLATIONS)[number]

/** The isolations that a caller can request from each backend. */
export const SUPPORTED_ISOLATION: Readonly<Record<BackendName, readonly Isolation[]>> = {
  process: ['process', 'none'],
  docker: ['container'],
}

export interface Availability {
  readonly isolation: Isolation
  /** Why the isolation is no stronger, as text for the user. */
  readonly reason?: string
  /** The command that would improve it. */
  readonly fix?: string
  /** The program that provides it, such as `bubblewrap 0.8.0`. */
  readonly version?: string
}

/** A kind of instance that runs until Craik destroys it. Craik reaches its programs through its boundary only. */
export interface SandboxBackend {
  readonly kind: BackendKind
  /** Returns the strongest isolation that this host supports, and what would make it stronger. */
  probe(): Promise<Availability>
  /**
   * Fixes what the container will be made of, before Craik decides or records anything. Only for backends with images.
   */
  plan?(request: ContainerRequest): Promise<ContainerSpec>
  /**
   * Starts an instance with the requested isolation, or refuses. It never uses a weaker one. A failure leaves nothing
   * behind except the disk. An existing disk of a stopped sandbox is used unchanged.
   */
  create(spec: SandboxSpec): Promise<SandboxInstance>
  /** Finds an instance that an earlier process started. Returns `undefined` when it no longer runs. */
  recover(handle: InstanceHandle, spec: SandboxSpec): Promise<SandboxInstance | undefined>
  /** Returns the other home in which the sandbox runs. One of the two homes is a copy, so they share sandbox ids. */
  locateOtherHome?(handle: InstanceHandle, spec: SandboxSpec): Promise<OtherHome | undefined>
  /**
   * Removes everything that an interrupted create or destroy left of an instance that must not run. Idempotent. Touches
   * nothing when an instance with this id runs in another home.
   */
  sweep(spec: SandboxSpec, handle: InstanceHandle | undefined): Promise<void>
  /** Removes the disk of a swept instance when it is not in the sandbox's folder. Idempotent. */
  discard?(spec: SandboxSpec): Promise<void>
  /**
   * Craik can start instances before it is known which sandbox gets them. If missing, Craik starts each one on request.
   */
  readonly pooled?: true
  /**
   * Returns whether folders of the host can be mounted in a running instance, as far as that is known before the first
   * attempt. If missing, they cannot.
   */
  readonly supportsHotMounts?: (container: ContainerSpec | null) => boolean
  /** If missing, the backend's disks cannot be archived. */
  readonly disks?: SandboxDisks
  /**
   * Ends the processes that probes and commands of an exited Craik process left outside any instance. Never touches
   * those of a living process.
   */
  endLeftovers?(): Promise<void>
}

export interface OtherHome {
  /** `undefined` when the path is not known. */
  readonly path: string | undefined
}

export interface SandboxSpec {
  readonly id: SandboxId
  readonly isolation: Isolation
  /** The sandbox's own folder on the host, `sandboxes/<id>`: `data` (its disk), `socket`, and what the backend needs. */
  readonly folder: string
  readonly workspace: WorkspaceSpec
  /** Other host folders that the sandbox can read. Only for backends with images. */
  readonly mounts?: readonly MountSpec[]
  /** The volumes, which outlive the sandbox, in its home. */
  readonly volumes?: readonly MountedVolume[]
  readonly limits: LimitSpec
  /** The ids of the harnesses that are mounted in it. Only for backends without images. */
  readonly harnesses?: readonly string[]
  /** For a warm instance: the kinds of folders that can be hot mounted when a sandbox gets it. If missing, none. */
  readonly late?: HotMountFolders
  /**
   * The user whose rights its programs have on the host. Craik chooses it when it records the sandbox, so that no two
   * sandboxes share one.
   */
  readonly hostUser: HostUser | undefined
  /** The resolved image, engine and runtime of the container. Only for backends with images. */
  readonly container?: ContainerSpec
}

export const CONTAINER_RUNTIMES = ['runc', 'runsc'] as const
/**
 * How the boundary stream leaves the container: through a host socket in a shared folder, or through an engine exec of
 * a relay for each connection.
 */
export const CONTAINER_TRANSPORTS = ['socket', 'relay'] as const
/** Where the disk is: in a host folder, or in an engine volume if the engine cannot see the host's folders. */
export const CONTAINER_STATES = ['folder', 'volume'] as const

/** The container fields that a caller can request. Craik chooses the missing ones by what the engine can do. */
export interface ContainerRequest {
  /** A name, a tag or an id. If `undefined`, Craik uses its own image and builds it when it is missing. */
  readonly image?: string | undefined
  readonly runtime?: (typeof CONTAINER_RUNTIMES)[number] | undefined
  readonly line?: (typeof CONTAINER_TRANSPORTS)[number] | undefined
  /** The ids of the harnesses that the image must contain. */
  readonly harnesses?: readonly string[] | undefined
}

/** Fixed when Craik records the sandbox, and the same at every start. */
export interface ContainerSpec {
  /** The engine's id of the image, `sha256:…`. It is never a name, because a name can refer to another image later. */
  readonly image: string
  /** The name that users see. */
  readonly imageName: string
  readonly runtime: (typeof CONTAINER_RUNTIMES)[number]
  readonly line: (typeof CONTAINER_TRANSPORTS)[number]
  readonly state: (typeof CONTAINER_STATES)[number]
  /**
   * The engine's own id of the engine that has the image. Craik does not request the image from another engine at the
   * same address.
   */
  readonly engine: string
  /** The ids of the harnesses in the image. If missing, there are none. */
  readonly harnesses?: readonly string[] | undefined
}

/**
 * `copy`: a folder of the sandbox itself, which Craik fills through the boundary. `in-place`: the caller's own folder,
 * writable.
 */
export type WorkspaceSpec = { readonly mode: 'copy' } | { readonly mode: 'in-place'; readonly folder: string }

/** A host folder, without symbolic links in its path, that is mounted read-only at `/mnt/NAME`. */
export interface MountSpec {
  readonly folder: string
  readonly at: string
}

/** A folder of Craik that outlives sandboxes, and its location in the sandbox home, such as `.local`. */
export interface VolumeSpec {
  readonly name: string
  readonly at: string
}

export interface MountedVolume extends VolumeSpec {
  /** Its location on the host. */
  readonly folder: string
}

/**
 * The access of a sandbox to the host's logins. `broker`: placeholder credentials that only the gateway accepts, and
 * only from this sandbox. `forward`: the real credentials. `none`: nothing.
 */
export const CREDENTIAL_MODES = ['broker', 'forward', 'none'] as const
export type CredentialMode = (typeof CREDENTIAL_MODES)[number]

/** The kinds of host folders that can be mounted in an instance that already runs. */
export interface HotMountFolders {
  /** The workspace itself, in place. */
  readonly workspace: boolean
  readonly mounts: boolean
}

/** The names that callers use. Containers support only the first. */
export const NETWORKS = ['none', 'restricted', 'bridge'] as const
/** The names that callers use. Mounts support only the first. */
export const MOUNT_MODES = ['read_only', 'read_write'] as const
/** The image name with which a caller requests Craik's own image. */
export const OWN_IMAGE = 'craik'

/** Returns whether the name is a digest of the image's inputs. Two images with the same name have the same inputs. */
export function isOwnImageName(name: string): boolean {
  return /^craik\/sandbox:[0-9a-f]{12}$/.test(name)
}

/** A value of `undefined` in place of this type means the user that Craik runs as. */
export interface HostUser {
  readonly uid: number
  readonly gid: number
}

export interface LimitSpec {
  readonly memoryBytes: number
  readonly processes: number
  /** Thousandths of a core. `undefined` means all cores. */
  readonly cpuMillis?: number
  readonly diskBytes?: number
}

/** How a limit is enforced. A limit that is not enforced is reported as such. */
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

/** The data that a later process needs to find the instance again. It is plain JSON, stored in the sandbox's record. */
export type InstanceHandle = Readonly<Record<string, string | number>>

export interface SandboxInstance {
  readonly handle: InstanceHandle
  readonly isolation: Isolation
  readonly hostUid: number
  readonly limits: LimitReport
  readonly line: InstanceConnection
  /**
   * Resolves with the reason, as far as it is known, when nothing runs in the instance any longer, whatever ended it.
   */
  readonly ended: Promise<string>
  /** Returns what the host measures of the instance. A number that the host cannot measure is missing. */
  observe(): Promise<ObservedUse>
  /**
   * Nothing in the instance runs until `unpause`, and nothing is lost. If missing, it cannot be paused here. Both are
   * idempotent.
   */
  readonly pause?: () => Promise<void>
  readonly unpause?: () => Promise<void>
  /**
   * Mounts the folders of the sandbox that gets this warm instance. Only for an instance that was started with `late`,
   * and only once. Checks the folders first, then mounts all of them or fails. After a failure, the caller must destroy
   * the instance. Refuses what `create` refuses, with the same error.
   */
  readonly mountFolders?: (spec: SandboxSpec) => Promise<void>
  /**
   * Ends everything in the instance and removes its cgroups and mounts, but not the folder or volume with its disk.
   * Idempotent.
   */
  destroy(): Promise<void>
}

/**
 * How to get the boundary's stream. `socket`: the host listens in the folder, and the sidecar connects, again after
 * each failure. `dial`: the host opens each connection.
 */
export type InstanceConnection =
  | { readonly kind: 'socket'; readonly folder: string }
  | { readonly kind: 'dial'; readonly dial: (until: AbortSignal) => Promise<DialledStream> }

/** Counts the bytes that it transfers, as a socket does. */
export type DialledStream = Duplex & { readonly bytesRead: number; readonly bytesWritten: number }

export interface ObservedUse {
  readonly memoryBytes?: number
  readonly cpuMs?: number
  readonly processes?: number
  readonly diskBytes?: number
  /** How often the kernel killed something in the instance because memory ran out. */
  readonly outOfMemoryKills?: number
}
