/** Tells a model where it runs and what it can request. */
import type { Tool } from '../../providers/conversation.ts'
import type { Store } from '../../store/store.ts'

export const RUN_COMMAND = {
  name: 'run_command',
  description:
    'Runs one command that the operator registered, by its reference. There is no shell: references only, no arguments.',
  parameters: {
    type: 'object',
    properties: {
      command_ref: { type: 'string', description: 'the reference, such as unit-tests' },
    },
    required: ['command_ref'],
    additionalProperties: false,
  },
} as const satisfies Tool

const SYSTEM = `You work on a task for an operator, in a sandbox without network and with a read-only workspace.
You can run commands that the operator registered, by reference, with the tool run_command. Each one needs the operator's
grant: one that has none is refused, and the run ends there. What a command prints comes back to you with secrets masked.
When the task is done, or cannot be done, say so and stop.`

/** The most references that the prompt lists. Others can still be requested. */
const MAX_NAMED = 100

/** Returns the commands that a model can request by name. Commands that secrets are read from stay hidden. */
export function commandsToOffer(store: Store): Promise<readonly string[]> {
  return store.read(async (tables) => {
    const sources = new Set((await tables.secrets.list()).map(({ reference }) => reference))
    const refs = (await tables.commands.list()).map(({ ref }) => ref)
    return refs.filter((ref) => !sources.has(ref)).slice(0, MAX_NAMED)
  })
}

/** Returns the system prompt. `passed` maps the commands that passed in an earlier attempt to their receipts. */
export function formatSystemPrompt(
  commandRefs: readonly string[],
  passed: ReadonlyMap<string, string> = new Map(),
): string {
  const done = [...passed].map(([ref, receipt]) => `- ${ref} (receipt ${receipt})`)
  return [
    SYSTEM,
    commandRefs.length === 0 ? 'No commands are registered.' : `Registered: ${commandRefs.join(', ')}`,
    ...(done.length === 0
      ? []
      : ['An earlier attempt at this task was interrupted. These commands passed in it:', ...done]),
  ].join('\n')
}
