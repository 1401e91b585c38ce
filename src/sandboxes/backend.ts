/** What a place to run things in can do. A backend is a folder with one exported object of this shape. */
import type { SandboxId } from '../lib/ids.ts'

/** The seed's names for the kinds of place. */
export const BACKEND_KINDS = ['local_process', 'container', 'remote_shell', 'browser_tool'] as const
export type BackendKind = (typeof BACKEND_KINDS)[number]

/** Weakest first. `none`: the host itself. `process`: namespaces of its own (bubblewrap). */
export const ISOLATIONS = ['none', 'process', 'container', 'remote', 'browser'] as const
export type Isolation = (typeof ISOLATIONS)[number]

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
  /** Starts it: the isolation asked for, or a refusal; never a weaker one. Nothing is left behind when it fails. */
  create(spec: SandboxSpec): Promise<RunningPlace>
  /** Finds a place again that an earlier process started; undefined when it runs no more. */
  recover(handle: PlaceHandle, spec: SandboxSpec): Promise<RunningPlace | undefined>
  /** Removes whatever an interrupted create or destroy left of a place that is not to run. Idempotent. */
  sweep(spec: SandboxSpec, handle: PlaceHandle | undefined): Promise<void>
  /** Ends what a process that is gone left of its looking around, in no place. Never touches what somebody living made. */
  endLeftovers(): Promise<void>
}

export interface SandboxSpec {
  readonly id: SandboxId
  readonly isolation: Isolation
  /** The sandbox's own folder on the host, `sandboxes/<id>`: `data` (its disk), `socket`, and what the backend needs. */
  readonly folder: string
  readonly workspace: WorkspaceSpec
  readonly limits: LimitSpec
  /** Whose rights its programs have on the host; chosen when the sandbox is recorded, so that no two share one. */
  readonly hostUser: HostUser | undefined
  /** References are resolved before; names and values are no secrets. */
  readonly environment: Readonly<Record<string, string>>
}

/** `copy`: a folder of its own, filled through the boundary. `in-place`: the caller's folder itself, writable. */
export type WorkspaceSpec = { readonly mode: 'copy' } | { readonly mode: 'in-place'; readonly folder: string }

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
export type PlaceHandle = Readonly<Record<string, string | number>>

export interface RunningPlace {
  readonly handle: PlaceHandle
  readonly isolation: Isolation
  readonly hostUid: number
  readonly limits: LimitReport
  /** The folder in which the host's socket has to be (re)made; the sidecar dials it, again and again. */
  readonly socketFolder: string
  /** Settles when nothing runs in it any more, whoever ended it; says why as far as that is known. */
  readonly ended: Promise<string>
  /** What the host itself sees of it; a figure that it cannot see is missing. */
  observe(): Promise<ObservedUse>
  /** Ends everything in it and removes what holds it (cgroups, mounts), not the folder. Idempotent. */
  destroy(): Promise<void>
}

export interface ObservedUse {
  readonly memoryBytes?: number
  readonly cpuMs?: number
  readonly processes?: number
  readonly diskBytes?: number
  /** How often the kernel ended something in it for want of memory. */
  readonly outOfMemoryKills?: number
}
