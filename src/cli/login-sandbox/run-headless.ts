/** `craik run-headless`: runs one command in a login sandbox and saves its output and exit code in the inbox. */
import { Command } from 'commander'
import { CraikError, type ErrorCode } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import { HeadlessRun } from '../../login-sandbox/keep/headless-run.ts'
import type { TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { runJob } from '../../sdk/run-job.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { printable, printNote } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { explanationOf, jobExitCode } from '../sandbox/job-exit-code.ts'
import { passInterrupts, UNREAD_EXIT_CODE } from '../sandbox/pass-interrupts.ts'
import { writeTo } from '../sandbox/write-output.ts'
import { commandEnvironment } from './entry-environment.ts'
import { requireProgram } from './exec.ts'
import { authorOf, endSession } from './login-sandbox-session.ts'
import { addLoginOptions, INBOX_HELP, runningSandboxOf, selectSandbox } from './select-sandbox.ts'

const HELP = `
Prints the output of the program, and saves it in the inbox. Each call gets a
folder headless-runs/<time>-<id>/ with the files command.txt, stdout.log,
stderr.log, exit_code and meta.env. Only you can read them. Values that look
like keys are masked. If exit_code is missing, the call was killed.

Exit code: that of the program. Before the program starts, 2 if the sandbox is
not running, or after wrong usage.

Examples:
  craik run-headless npm test
  craik run-headless claude -p "update the changelog"
`

export const runHeadlessCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('run-headless'))
    .argument('<program...>', 'the program and its arguments')
    .usage('[options] [--] <program> [arguments...]')
    .option('--inbox <folder>', INBOX_HELP)
    .passThroughOptions()
    .addHelpText('after', HELP)
    .action(async (argv: readonly string[], options: TypedOptions) => {
      requireProgram(argv)
      await runHeadless(context, options, () => argv)
    })

export async function runHeadless(
  context: CliContext,
  options: TypedOptions,
  argvFor: (login: string) => readonly string[],
): Promise<void> {
  const chosen = await selectSandbox(context, options)
  using client = await connect(context)
  const sandbox = await runningSandboxOf(context, client, chosen)
  const accounts = await chosen.logins.accounts(context.signal)
  const argv = argvFor(chosen.login)
  const run = await HeadlessRun.begin({
    inbox: chosen.settings.inbox,
    login: chosen.login,
    sandbox: sandbox.name,
    argv,
    startedAtMs: context.clock.nowMs(),
  })
  const jobId = newId<string>('job', context.clock.nowMs())
  context.exitWhenUnread(UNREAD_EXIT_CODE)
  try {
    const left = new AbortController()
    using _ = passInterrupts(context, client, sandbox.id, jobId, left)
    const env = commandEnvironment(sandbox, accounts, authorOf(context, chosen.login))
    const { result } = await runJob(
      client,
      sandbox.id,
      { kind: 'exec', argv: [...argv], env },
      {
        jobId,
        signal: left.signal,
        async onStdout(chunk) {
          await run.stdout(chunk)
          await writeTo(context.stdout, chunk)
        },
        async onStderr(chunk) {
          await run.stderr(chunk)
          await writeTo(context.stderr, chunk)
        },
      },
    ).catch(async (error: unknown) => {
      await recordRefusal(context, run, error)
      throw error
    })
    const code = jobExitCode(result)
    await run.finish(code, context.clock.nowMs())
    const explanation = explanationOf(result, sandbox.name, { program: argv[0]! })
    if (explanation !== undefined && !context.signal.aborted) printNote(context, `craik: ${explanation}\n`)
    context.setExitCode(code)
  } finally {
    await run.close()
    printNote(context, `  saved in ${printable(run.path)}\n`)
  }
  await endSession(context, chosen)
}

/** The errors that refuse a command before it starts. */
const REFUSALS: readonly ErrorCode[] = ['denied', 'usage', 'too_large', 'limit_reached']

/**
 * A run without an exit code counts as killed, so a refused run gets the exit code of this command, and the log gets
 * the reason.
 */
async function recordRefusal(context: CliContext, run: HeadlessRun, error: unknown): Promise<void> {
  if (!(error instanceof CraikError) || !REFUSALS.includes(error.code)) return
  await run.stderr(Buffer.from(`craik: ${error.message}\n`))
  await run.finish(error.exitCode, context.clock.nowMs())
}
