/** What agents' commands need of the context, opened when it is used. */
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

/** Store and home: enough to read records and check their seals. */
export async function recordDeps(context: CliContext) {
  return { store: await context.store(), home: context.home }
}
