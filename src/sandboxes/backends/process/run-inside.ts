/** Runs a command with bubblewrap. It distinguishes a command that failed from one that bubblewrap could not start. */
import { type RunResult, runChild } from '../../../lib/child.ts'
import type { ExecOptions } from '../../command-backend.ts'
import type { Invocation } from './bubblewrap.ts'
import { signalDescendants } from './descendants.ts'
import { ownProcFolder } from './leftovers.ts'

export type User = { readonly uid: number; readonly gid: number } | undefined

/** The part of bubblewrap's own output that is read. Its errors are one line. */
const MAX_HEARD = 4096

export async function runInside(
  { argv, inputs }: Invocation,
  user: User,
  options: ExecOptions,
): Promise<RunResult> {
  let [status, complaint] = ['', '']
  const run = await runChild({
    ...options,
    argv,
    inputs,
    cwd: ownProcFolder(),
    env: {},
    sendFirstSignal: signalDescendants,
    ...(user && { user }),
    onStatus: (chunk) => {
      status = (status + chunk).slice(0, MAX_HEARD)
    },
    onStderr: (chunk) => {
      complaint = (complaint + chunk).slice(0, MAX_HEARD)
      return options.onStderr(chunk)
    },
  })
  // Only bubblewrap has that descriptor, and it reports an exit code only if a program started.
  if (run.end !== 'exited' || status.includes('"exit-code"')) return run
  return { end: 'not_started', ...explain(options.argv[0] ?? '', complaint), durationMs: run.durationMs }
}

function explain(
  program: string,
  complaint: string,
): Pick<Extract<RunResult, { end: 'not_started' }>, 'reason' | 'message'> {
  const name = JSON.stringify(program)
  const output = /^bwrap: ([^\n]{1,160})/m.exec(complaint)?.[1] ?? 'bubblewrap reported no reason'
  if (!output.startsWith('execvp '))
    return { reason: 'other', message: `cannot start the sandbox (${output})` }
  if (output.endsWith(': Permission denied')) {
    return { reason: 'not_executable', message: `cannot execute ${name} in the sandbox: permission denied` }
  }
  const message = `the program ${name}, or a file that it needs to start, is missing in the sandbox`
  return { reason: 'missing', message }
}
