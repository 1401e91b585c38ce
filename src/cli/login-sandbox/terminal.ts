/** Opens terminals in a login sandbox. */
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { printNote } from '../output.ts'
import { explanationOf, jobExitCode } from '../sandbox/job-exit-code.ts'
import { LOGIN_SHELL, TerminalSession, termOf } from '../sandbox/terminal-session.ts'

export function hasTerminal({ stdin, stdout }: CliContext): boolean {
  return Boolean(stdin.isTTY && stdout.isTTY)
}

/** The time that the supervisor has to report why a terminal ended. */
const ASK_MS = 5_000

/**
 * Waits until the terminal ends or the user detaches. Returns false if the user detached and it still runs. Throws if
 * the sandbox itself was stopped or removed, with the command that starts it again.
 */
export async function openTerminal(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  env: Readonly<Record<string, string>>,
  up: string,
): Promise<boolean> {
  const jobId = newId<string>('job', context.clock.nowMs())
  const session = new TerminalSession(context, client, sandbox.id, jobId)
  const end = await session
    .run((cols, rows) => ({
      kind: 'terminal',
      argv: [...LOGIN_SHELL],
      env: { ...env },
      cols,
      rows,
      term: termOf(context),
    }))
    .catch(async (error: unknown) => {
      throw (await endOfSandbox(client, sandbox, up)) ?? error
    })
  if (end === undefined) {
    printNote(context, `  detached; reattach:  craik sandbox shell ${sandbox.name} --attach ${jobId}\n`)
    return false
  }
  if (end.result.outcome !== 'exited') {
    const ended = await endOfSandbox(client, sandbox, up)
    if (ended !== undefined) throw ended
  }
  const explanation = explanationOf(end.result, sandbox.name, {})
  if (explanation !== undefined) printNote(context, `craik: ${explanation}\n`)
  context.setExitCode(jobExitCode(end.result))
  return true
}

/**
 * Returns an error if the terminal ended because the sandbox was stopped or removed. Returns undefined if the sandbox
 * still exists, or if the supervisor does not answer.
 */
async function endOfSandbox(
  client: ApiClient,
  { id, name }: SandboxBody,
  up: string,
): Promise<CraikError | undefined> {
  const state = await client.sandboxes.get(id, { signal: AbortSignal.timeout(ASK_MS) }).then(
    (found) => found.state,
    (error: unknown) => (error instanceof CraikError && error.code === 'not_found' ? 'deleting' : undefined),
  )
  if (state === 'deleting')
    return new CraikError('not_found', `the sandbox ${name} was removed, which closed this terminal`, {
      hint: `recreate it:  ${up}`,
      details: { removed: id },
    })
  if (state === 'stopping' || state === 'stopped')
    return new CraikError('sandbox_stopped', `the sandbox ${name} was stopped`, {
      hint: `start it again:  ${up}`,
    })
  return undefined
}

/** The command that removed the sandbox has saved its conversations. */
export function isRemoved(error: unknown): boolean {
  return error instanceof CraikError && error.details?.removed !== undefined
}
