/** What agents' commands need of the context, opened when it is used. */
import type { RunPlace } from '../../run/agents/place.ts'
import type { CliContext } from '../context.ts'

export async function runPlace(context: CliContext): Promise<RunPlace> {
  const { resolveSecret } = await import('../../secrets/resolve.ts')
  const { home, clock, environment, signal, kill: killSignal } = context
  const store = await context.store()
  return {
    store,
    log: await context.log(),
    home,
    clock,
    environment,
    backend: await context.processCommands(),
    signal,
    killSignal,
    credential: (name, until) => resolveSecret(store, home, environment, name, until, killSignal),
  }
}

/** Store and home: enough to read records and check their seals. */
export async function recordPlace(context: CliContext) {
  return { store: await context.store(), home: context.home }
}
