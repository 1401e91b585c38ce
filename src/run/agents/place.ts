/** What a run needs around it. */
import type { ProviderPlace } from '../../providers/dispatch-types.ts'
import type { CommandBackend } from '../../sandboxes/command-backend.ts'

export interface RunPlace extends ProviderPlace {
  /** Where registered commands run. */
  readonly backend: CommandBackend
  /** Asks the run to stop: it ends as interrupted, with its handoff. */
  readonly signal: AbortSignal
  /** Ends a command at once. */
  readonly killSignal: AbortSignal
}
