/** `craik exec`: runs one command in a login sandbox, with its own output, input and exit code. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import type { TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import type { JobRequestBody } from '../../operator/api/requests.ts'
import { runJob } from '../../sdk/run-job.ts'
import type { NounBuilder } from '../context.ts'
import { printNote } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { hasInput } from '../sandbox/exec.ts'
import { explanationOf, jobExitCode } from '../sandbox/job-exit-code.ts'
import { passInterrupts, UNREAD_EXIT_CODE } from '../sandbox/pass-interrupts.ts'
import { writeTo } from '../sandbox/write-output.ts'
import { commandEnvironment } from './entry-environment.ts'
import { authorOf } from './login-sandbox-session.ts'
import { addLoginOptions, runningSandboxOf, selectSandbox } from './select-sandbox.ts'

const HELP = `
Put options of craik before the program. The program runs in the workspace,
without a shell.

Exit code: that of the program. Before the program starts, 2 if the sandbox is
not running, or after wrong usage.

Examples:
  craik exec npm test
  craik exec sh -c 'claude -p "what is this?" | head -3'
`

export const execLoginSandboxCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('exec'))
    .argument('<program...>', 'the program and its arguments')
    .usage('[options] [--] <program> [arguments...]')
    .passThroughOptions()
    .addHelpText('after', HELP)
    .action(async (argv: readonly string[], options: TypedOptions) => {
      requireProgram(argv)
      const chosen = await selectSandbox(context, options)
      using client = await connect(context)
      const sandbox = await runningSandboxOf(context, client, chosen)
      const accounts = await chosen.logins.accounts(context.signal)
      const jobId = newId<string>('job', context.clock.nowMs())
      context.exitWhenUnread(UNREAD_EXIT_CODE)
      const left = new AbortController()
      using _ = passInterrupts(context, client, sandbox.id, jobId, left)
      const takesInput = hasInput(context, undefined)
      const spec: JobRequestBody = {
        kind: 'exec',
        argv: [...argv],
        env: commandEnvironment(sandbox, accounts, authorOf(context, chosen.login)),
        ...(takesInput && { stdin: true }),
      }
      const { result } = await runJob(client, sandbox.id, spec, {
        jobId,
        signal: left.signal,
        ...(takesInput && { stdin: context.stdin }),
        onStdout: (chunk) => writeTo(context.stdout, chunk),
        onStderr: (chunk) => writeTo(context.stderr, chunk),
      })
      const explanation = explanationOf(result, sandbox.name, { program: argv[0]! })
      if (explanation !== undefined && !context.signal.aborted) printNote(context, `craik: ${explanation}\n`)
      context.setExitCode(jobExitCode(result))
    })

export function requireProgram(argv: readonly string[]): void {
  if (argv[0] === '')
    throw new CraikError('usage', 'the program name is empty', { hint: 'craik exec npm test' })
}
