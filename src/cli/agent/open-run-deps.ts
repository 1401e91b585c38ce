/** Opens what the agent commands need from the context, only when they use it. */
import type { RunDeps } from '../../run/agents/run-deps.ts'
import type { CliContext } from '../context.ts'

export async function openRunDeps(context: CliContext): Promise<RunDeps> {
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

/** Returns the store and the home, which are enough to read records and check their seals. */
export async function recordDeps(context: CliContext) {
  return { store: await context.store(), home: context.home }
}
