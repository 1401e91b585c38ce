/** What a run needs around it. */
import type { ProviderDeps } from '../../providers/dispatch-types.ts'
import type { CommandBackend } from '../../sandboxes/command-backend.ts'

export interface RunDeps extends ProviderDeps {
  /** Where registered commands run. */
  readonly backend: CommandBackend
  /** Asks the run to stop: it ends as interrupted, with its handoff. */
  readonly signal: AbortSignal
  /** Ends a command at once. */
  readonly killSignal: AbortSignal
}
