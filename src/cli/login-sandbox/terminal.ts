/** A terminal in a login's sandbox. */
import { newId } from '../../lib/ids.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { exitCodeOf, explanationOf } from '../sandbox/outcome.ts'
import { LOGIN_SHELL, TerminalSession, termOf } from '../sandbox/terminal-session.ts'

export function hasTerminal({ stdin, stdout }: CliContext): boolean {
  return Boolean(stdin.isTTY && stdout.isTTY)
}

/** Until it ends, or is left; false when it was left and goes on. */
export async function openTerminal(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  env: Readonly<Record<string, string>>,
): Promise<boolean> {
  const jobId = newId<string>('job', context.clock.nowMs())
  const session = new TerminalSession(context, client, sandbox.id, jobId)
  const end = await session.run((cols, rows) => ({
    ...{ kind: 'terminal', argv: [...LOGIN_SHELL], env: { ...env }, cols, rows, term: termOf(context) },
  }))
  if (end === undefined) {
    context.stderr.write(`  left; it goes on:  craik sandbox shell ${sandbox.name} --attach ${jobId}\n`)
    return false
  }
  const explanation = explanationOf(end.result, sandbox.name, {})
  if (explanation !== undefined) context.stderr.write(`craik: ${explanation}\n`)
  context.setExitCode(exitCodeOf(end.result))
  return true
}
