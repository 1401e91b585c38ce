/** What a run needs around it. */
import type { ProviderPlace } from '../../providers/dispatch-types.ts'
import type { SandboxBackend } from '../../sandboxes/backend.ts'

export interface RunPlace extends ProviderPlace {
  /** Where registered commands run. */
  readonly backend: SandboxBackend
  /** Asks the run to stop: it ends as interrupted, with its handoff. */
  readonly signal: AbortSignal
  /** Ends a command at once. */
  readonly killSignal: AbortSignal
}
