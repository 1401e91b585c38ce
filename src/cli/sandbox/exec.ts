/** `craik sandbox exec`: runs one command in a sandbox, with its own output, input and exit code. */
import { fstatSync } from 'node:fs'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { newId, parseReference } from '../../lib/ids.ts'
import type { JobRequestBody } from '../../operator/api/requests.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { runJob } from '../../sdk/run-job.ts'
import type { CliContext } from '../context.ts'
import { grantOption } from '../grant-option.ts'
import { formatOption, JSON_HELP, printNote, printRecord } from '../output.ts'
import { parseTimeout } from '../timeout-option.ts'
import { quoteText } from './amounts.ts'
import { connect } from './connect-supervisor.ts'
import { parseEnvironment } from './environment-option.ts'
import { explanationOf, jobExitCode } from './job-exit-code.ts'
import { passInterrupts, UNREAD_EXIT_CODE } from './pass-interrupts.ts'
import { parseFolder } from './sandbox-path.ts'
import { writeTo } from './write-output.ts'

interface ExecOptions {
  readonly cwd?: string
  readonly env?: readonly string[]
  readonly timeout?: string
  readonly detach?: boolean
  readonly jobId?: string
  readonly command?: string
  readonly stdin?: boolean
  readonly grant?: string
  readonly format?: string
}

export function execCommand(context: CliContext): Command {
  return new Command('exec')
    .description('run a command in a sandbox and exit with its exit code')
    .argument('<id>', 'id or name')
    .argument('[program...]', 'the program and its arguments, after --; omit it with --command')
    .usage('[options] <id> -- <program> [arguments...]')
    .option('--cwd <folder>', 'working directory, relative to the workspace')
    .option('--env <name=value...>', 'environment variables of the command')
    .option('--timeout <duration>', 'stop the command after this long (default: never)')
    .option('--detach', 'run the command in the background and print how to follow it')
    .option(
      '--job-id <id>',
      'id of the job (job_ and a ULID), to run it at most once: a second call with this id attaches to the first',
    )
    .option('--command <ref>', 'run this registered command (craik command) instead of a program')
    .option('-i, --stdin', 'forward standard input (default: if it is a pipe or a file)')
    .option('--no-stdin', 'do not forward standard input')
    .addOption(grantOption())
    .addOption(
      formatOption(`format of what --detach prints; ${JSON_HELP} (default: table on a terminal, else json)`),
    )
    .addHelpText('after', HELP)
    .action(async (id: string, argv: readonly string[], options: ExecOptions) => {
      const spec = specOf(context, id, argv, options)
      const jobId = jobIdOf(context, options.jobId)
      const grant = options.grant === undefined ? {} : { grantId: parseReference(options.grant, '--grant') }
      using client = await connect(context)
      if (options.detach) return detach(context, client, id, spec, { jobId, ...grant }, options)
      context.exitWhenUnread(UNREAD_EXIT_CODE)
      const left = new AbortController()
      using _ = passInterrupts(context, client, id, jobId, left)
      const { result, lostBytes } = await runJob(client, id, spec, {
        jobId,
        ...grant,
        signal: left.signal,
        ...(spec.kind === 'exec' && spec.stdin && { stdin: context.stdin }),
        onStdout: (chunk) => writeTo(context.stdout, chunk),
        onStderr: (chunk) => writeTo(context.stderr, chunk),
      })
      if (lostBytes > 0)
        printNote(context, `craik: ${lostBytes.toLocaleString('en')} bytes of output were lost\n`)
      const explanation = explanationOf(result, id, { cwd: options.cwd, program: argv[0] })
      if (explanation !== undefined && !context.signal.aborted) printNote(context, `craik: ${explanation}\n`)
      context.setExitCode(jobExitCode(result))
    })
}

function specOf(
  context: CliContext,
  id: string,
  argv: readonly string[],
  options: ExecOptions,
): JobRequestBody {
  if ((options.command === undefined) === (argv.length === 0))
    throw new CraikError('usage', 'specify either a command after -- or --command with a reference', {
      hint: `craik sandbox exec ${id} -- npm test`,
    })
  if (argv[0] === '')
    throw new CraikError('usage', 'the command name is empty', {
      hint: `craik sandbox exec ${id} -- npm test`,
    })
  if (options.detach && options.stdin === true)
    throw new CraikError('usage', '--detach cannot be combined with --stdin', {
      hint: 'copy the input to a file in the sandbox first:  craik sandbox cp',
    })
  const env = parseEnvironment(options.env)
  return {
    kind: 'exec',
    ...(options.command === undefined
      ? { argv: [...argv] }
      : { command_ref: parseReference(options.command, '--command') }),
    ...(options.cwd !== undefined && { cwd: parseFolder(options.cwd, '--cwd') }),
    ...(Object.keys(env).length > 0 && { env }),
    ...(options.timeout !== undefined && { timeout_ms: parseTimeout(options.timeout) }),
    ...(!options.detach && hasInput(context, options.stdin) && { stdin: true }),
  }
}

/** Returns true for a pipe, a file or a socket. Craik reads from a terminal only if the user asks for it. */
export function hasInput({ stdin }: CliContext, requested: boolean | undefined): boolean {
  if (requested !== undefined) return requested
  try {
    const stats = fstatSync((stdin as { readonly fd?: number }).fd ?? 0)
    return stats.isFIFO() || stats.isFile() || stats.isSocket()
  } catch {
    return false
  }
}

export function jobIdOf(context: CliContext, requested: string | undefined): string {
  if (requested === undefined) return newId('job', context.clock.nowMs())
  if (/^job_[0-9A-HJKMNP-TV-Z]{26}$/.test(requested)) return requested
  throw new CraikError('usage', `${quoteText(requested)} is not a job id: expected job_ and a ULID`, {
    hint: 'omit the id for a new job, or list earlier jobs:  craik sandbox logs ID',
  })
}

/** Returns as soon as the command has started, because it needs no client from then on. */
async function detach(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  spec: JobRequestBody,
  { jobId, ...grant }: { readonly jobId: string; readonly grantId?: string },
  options: ExecOptions,
): Promise<void> {
  const left = new AbortController()
  let receiptId: string | undefined
  const signal = AbortSignal.any([left.signal, context.signal])
  try {
    await runJob(client, sandbox, spec, {
      jobId,
      signal,
      ...grant,
      onStarted(started) {
        receiptId = started.receiptId
        left.abort()
      },
    })
  } catch (error) {
    if (receiptId === undefined) throw error
  }
  const record = { sandbox, job_id: jobId, receipt_id: receiptId ?? null, detached: true }
  printRecord(
    context,
    options,
    record,
    () => `  ${jobId}\n  follow it:  craik sandbox logs ${sandbox} --job ${jobId} --follow\n`,
  )
}

const HELP = `
Standard output, standard error and the exit code are those of the command. The
exit code is 128 plus the signal number if a signal ended it, 124 after
--timeout, and 127 if the program does not exist. Ctrl-C sends SIGINT; a second
Ctrl-C kills the command. If the reader of its output exits (as in | head), the
command gets SIGPIPE and the exit code is 141. If Craik's background process
(craik supervisor) is killed or replaced, the command and its output continue.

Examples:
  craik sandbox exec parser -- npm test
  craik sandbox exec parser --cwd src --timeout 30s -- ls -la
  craik sandbox exec parser --detach -- make all
`
