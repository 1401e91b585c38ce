/** What a place to run things in can do. A backend is a folder with one exported object of this shape. */
import type { RunOptions, RunResult } from '../lib/child.ts'

/** The seed's names for the kinds of place. */
export const BACKEND_KINDS = ['local_process', 'container', 'remote_shell', 'browser_tool'] as const
export type BackendKind = (typeof BACKEND_KINDS)[number]

/** Weakest first. `none`: the host itself. `process`: namespaces of its own (bubblewrap). */
export const ISOLATIONS = ['none', 'process', 'container', 'remote', 'browser'] as const
export type Isolation = (typeof ISOLATIONS)[number]

export interface SandboxBackend {
  readonly kind: BackendKind
  /** The strongest it reaches on this machine, and what would make it stronger. */
  probe(): Promise<Availability>
  /** The isolation asked for, or a refusal; never a weaker one. */
  create(spec: SandboxSpec): Promise<Sandbox>
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

export interface SandboxSpec {
  readonly isolation: Isolation
  /**
   * The folder that commands start in: read-only inside, except with isolation `none`. Absolute and resolved when it
   * was chosen: a path with a link in it is refused.
   */
  readonly workspace: string
}

export interface Sandbox extends AsyncDisposable {
  /** What was really reached. */
  readonly isolation: Isolation
  /** Whose rights on the host its programs have underneath; known where it matters. */
  readonly hostUid?: number
  readonly boundary: Boundary
  destroy(): Promise<void>
}

/** Everything that enters or leaves. Terminals, files and ports join it with the sidecar. */
interface Boundary {
  /** In an isolated place `env` is added to the place's own; on the host it is all there is. */
  exec(options: ExecOptions): Promise<RunResult>
}

export type ExecOptions = Omit<RunOptions, 'cwd'>
