/** The dependencies of a run. */
import type { ProviderDeps } from '../../providers/dispatch-types.ts'
import type { CommandBackend } from '../../sandboxes/command-backend.ts'

export interface RunDeps extends ProviderDeps {
  /** Runs registered commands. */
  readonly backend: CommandBackend
  /** Requests a stop: the run ends as interrupted, with its handoff. */
  readonly signal: AbortSignal
  /** Kills a command immediately. */
  readonly killSignal: AbortSignal
}
