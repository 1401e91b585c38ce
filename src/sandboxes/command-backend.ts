/** Where single registered commands run, each in a place of its own that ends with it; nothing outlives it. */
import type { RunOptions, RunResult } from '../lib/child.ts'
import type { Availability, BackendKind, Isolation } from './backend.ts'

export interface CommandBackend {
  readonly kind: BackendKind
  /** The strongest it reaches on this machine, and what would make it stronger. */
  probe(): Promise<Availability>
  /** The isolation asked for, or a refusal; never a weaker one. */
  create(spec: CommandSpec): Promise<CommandSandbox>
}

export interface CommandSpec {
  readonly isolation: Isolation
  /**
   * The folder that commands start in: read-only inside, except with isolation `none`. Absolute and resolved when it
   * was chosen: a path with a link in it is refused.
   */
  readonly workspace: string
}

export interface CommandSandbox extends AsyncDisposable {
  /** What was really reached. */
  readonly isolation: Isolation
  /** Whose rights on the host its programs have underneath; known where it matters. */
  readonly hostUid?: number
  readonly boundary: CommandBoundary
  destroy(): Promise<void>
}

/** Everything that enters or leaves. Terminals, files and ports join it with the sidecar. */
interface CommandBoundary {
  /** In an isolated place `env` is added to the place's own; on the host it is all there is. */
  exec(options: ExecOptions): Promise<RunResult>
}

export type ExecOptions = Omit<RunOptions, 'cwd'>
