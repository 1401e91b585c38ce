/** `craik sandbox`: manages sandboxes, runs commands in them, and copies files in and out. */
import { Command } from 'commander'
import type { CliContext, NounBuilder } from './context.ts'

type Loader = () => Promise<(context: CliContext) => Command>

const VERBS: readonly (readonly [name: string, load: Loader])[] = [
  ['create', async () => (await import('./sandbox/create.ts')).createCommand],
  ['list', async () => (await import('./sandbox/list.ts')).listSandboxesCommand],
  ['show', async () => (await import('./sandbox/list.ts')).showSandboxCommand],
  ['exec', async () => (await import('./sandbox/exec.ts')).execCommand],
  ['shell', async () => (await import('./sandbox/shell.ts')).sandboxShellCommand],
  ['cp', async () => (await import('./sandbox/cp.ts')).cpCommand],
  ['stats', async () => (await import('./sandbox/inspect.ts')).statsCommand],
  ['logins', async () => (await import('./sandbox/inspect.ts')).loginsCommand],
  ['ps', async () => (await import('./sandbox/inspect.ts')).psCommand],
  ['signal', async () => (await import('./sandbox/inspect.ts')).signalCommand],
  ['logs', async () => (await import('./sandbox/logs.ts')).logsCommand],
  ['forward', async () => (await import('./sandbox/forward.ts')).forwardCommand],
  ['stop', async () => (await import('./sandbox/lifecycle.ts')).stopCommand],
  ['resume', async () => (await import('./sandbox/lifecycle.ts')).resumeCommand],
  ['pause', async () => (await import('./sandbox/lifecycle.ts')).pauseCommand],
  ['snapshot', async () => (await import('./sandbox/snapshot.ts')).takeSnapshotCommand],
  ['restore', async () => (await import('./sandbox/snapshot.ts')).restoreCommand],
  ['fork', async () => (await import('./sandbox/snapshot.ts')).forkCommand],
  ['delete', async () => (await import('./sandbox/delete.ts')).deleteSandboxCommand],
]

/** Loads only the verb that the user typed. If no verb has that name, loads all of them for the help. */
export const sandboxCommand: NounBuilder = async (context, verb) => {
  const isKnown = VERBS.some(([name]) => name === verb)
  const sandbox = new Command('sandbox')
  for (const [name, load] of VERBS)
    sandbox.addCommand(!isKnown || name === verb ? (await load())(context) : new Command(name))
  return sandbox
}
