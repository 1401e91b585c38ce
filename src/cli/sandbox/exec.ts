/** `craik sandbox exec`: one command inside, with its own output, input and exit code. */
import { fstatSync } from 'node:fs'
import { Command, Option } from 'commander'
import { CraikError } from '../../errors.ts'
import { parseDuration } from '../../lib/duration.ts'
import { newId, parseReference } from '../../lib/ids.ts'
import type { JobRequestBody } from '../../operator/api/requests.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { runJob } from '../../sdk/run-job.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { connect } from './connect.ts'
import { parseEnvironment } from './environment.ts'
import { parseFolder } from './inside-folder.ts'
import { exitCodeOf, explanationOf } from './outcome.ts'
import { passInterrupts, UNREAD_EXIT_CODE } from './pass-interrupts.ts'
import { writeTo } from './streams.ts'

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
    .description('run one command inside; exits with its code')
    .argument('<id>', 'id or name')
    .argument('[argv...]', 'the program and its arguments, after --')
    .usage('[options] <id> -- <program> [arguments...]')
    .option('--cwd <folder>', 'where to run it; relative to the workspace')
    .option('--env <name=value...>', 'variables for it')
    .option('--timeout <duration>', 'end it after this long')
    .option('--detach', 'let it run, and print how to follow it')
    .option('--job-id <id>', 'run it under this id: once, however often it is asked for')
    .addOption(new Option('--command <ref>', 'a registered command, in place of the arguments'))
    .option('-i, --stdin', 'pass on standard input (by itself when that is a pipe or a file)')
    .option('--no-stdin', 'pass on nothing')
    .option('--grant <id>', 'the grant to use; without it a usable one is looked up')
    .addOption(formatOption())
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
        ...{ jobId, ...grant, signal: left.signal },
        ...(spec.kind === 'exec' && spec.stdin && { stdin: context.stdin }),
        onStdout: (chunk) => writeTo(context.stdout, chunk),
        onStderr: (chunk) => writeTo(context.stderr, chunk),
      })
      if (lostBytes > 0)
        context.stderr.write(`craik: ${lostBytes.toLocaleString('en')} bytes of its output were lost\n`)
      const explanation = explanationOf(result, id, { cwd: options.cwd, program: argv[0] })
      if (explanation !== undefined && !context.signal.aborted)
        context.stderr.write(`craik: ${explanation}\n`)
      context.setExitCode(exitCodeOf(result))
    })
}

function specOf(
  context: CliContext,
  id: string,
  argv: readonly string[],
  options: ExecOptions,
): JobRequestBody {
  if ((options.command === undefined) === (argv.length === 0))
    throw new CraikError('usage', 'give the command after --, or --command with the reference of one', {
      hint: `craik sandbox exec ${id} -- npm test`,
    })
  if (argv[0] === '')
    throw new CraikError('usage', 'the command’s name is empty', {
      hint: `craik sandbox exec ${id} -- npm test`,
    })
  if (options.detach && options.stdin === true)
    throw new CraikError('usage', '--detach leaves nobody to pass on standard input', {
      hint: 'put the input into a file first: craik sandbox cp',
    })
  const env = parseEnvironment(options.env)
  return {
    kind: 'exec',
    ...(options.command === undefined
      ? { argv: [...argv] }
      : { command_ref: parseReference(options.command, '--command') }),
    ...(options.cwd !== undefined && { cwd: parseFolder(options.cwd, '--cwd') }),
    ...(Object.keys(env).length > 0 && { env }),
    ...(options.timeout !== undefined && { timeout_ms: timeoutOf(options.timeout) }),
    ...(!options.detach && hasInput(context, options.stdin) && { stdin: true }),
  }
}

function timeoutOf(text: string): number {
  const ms = parseDuration(text, '--timeout')
  if (ms <= LIMITS.maxTimeoutMs) return ms
  throw new CraikError('usage', '--timeout is over a week', { hint: 'at most 7d' })
}

/** A pipe or a file that somebody put there; nothing is taken from a terminal unasked. */
export function hasInput({ stdin }: CliContext, asked: boolean | undefined): boolean {
  if (asked !== undefined) return asked
  try {
    const stats = fstatSync((stdin as { readonly fd?: number }).fd ?? 0)
    return stats.isFIFO() || stats.isFile() || stats.isSocket()
  } catch {
    return false
  }
}

export function jobIdOf(context: CliContext, asked: string | undefined): string {
  if (asked === undefined) return newId('job', context.clock.nowMs())
  if (/^job_[0-9A-HJKMNP-TV-Z]{26}$/.test(asked)) return asked
  throw new CraikError('usage', 'a job’s id is job_ and a ULID', {
    hint: 'leave it out to get a new one; those that ran are in `craik sandbox logs`',
  })
}

/** Started is what counts; from there on it needs nobody. */
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
      ...{ jobId, signal, ...grant },
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
Standard output, standard error and the exit code are the command's own: 128 and the number of a signal that ended
it, 124 when --timeout did, 127 when there is no such program. Ctrl-C is sent to it as SIGINT; the second one kills it.
Whoever reads its output and leaves ends it, as in any pipe: then the exit code is 141.
When the supervisor is killed or replaced meanwhile, the command goes on and so does its output.

Examples:
  craik sandbox exec parser -- npm test
  craik sandbox exec parser --cwd src --timeout 30s -- ls -la
  craik sandbox exec parser --detach -- make all
`
