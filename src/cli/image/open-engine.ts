/** Opens the engine for commands that connect to it themselves. */
import type { Engine } from '../../sandboxes/backends/docker/engine/engine.ts'
import type { CliContext } from '../context.ts'

export async function engineOf(context: CliContext): Promise<Engine> {
  const { openEngine } = await import('../../sandboxes/backends/docker/engine/engine.ts')
  return openEngine(context.environment)
}
