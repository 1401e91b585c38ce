/** `craik sandbox logs`: prints the events of a sandbox, or the output of one of its commands. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import { FRAME_HEADER_BYTES } from '../../lib/frames.ts'
import type { SandboxEventBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { attachJob } from '../../sdk/run-job.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRows, resolveFormat } from '../output.ts'
import { connect } from './connect-supervisor.ts'
import { jobIdOf } from './exec.ts'
import { explanationOf } from './job-exit-code.ts'
import { writeTo } from './write-output.ts'

interface LogsOptions {
  readonly job?: string
  readonly follow?: boolean
  readonly format?: string
}

export function logsCommand(context: CliContext): Command {
  return new Command('logs')
    .description('print the events of a sandbox, or with --job the output of a command')
    .argument('<id>', 'id or name')
    .option('--job <id>', 'print the stored output of this job (a command in the sandbox), as it wrote it')
    .option('--follow', 'print new events or output until the end or Ctrl-C')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik sandbox logs parser --follow\n')
    .action(async (id: string, options: LogsOptions) => {
      const job = options.job === undefined ? undefined : jobIdOf(context, options.job)
      using client = await connect(context)
      await (job === undefined
        ? events(context, client, id, options)
        : output(context, client, id, job, options))
    })
}

async function events(
  context: CliContext,
  client: ApiClient,
  id: string,
  options: LogsOptions,
): Promise<void> {
  const { signal } = context
  if (!options.follow && resolveFormat(context, options) !== 'table') {
    const all: SandboxEventBody[] = []
    for await (const event of client.sandboxes.events(id, { signal })) all.push(event)
    return printRows(context, options, all, [], eventJson)
  }
  const line = resolveFormat(context, options) === 'table' ? describeEvent : eventLine
  try {
    for await (const event of client.sandboxes.events(id, { signal, follow: options.follow ?? false }))
      context.stdout.write(line(event))
  } catch (error) {
    // Ctrl-C is the normal end of following.
    if (!(options.follow && signal.aborted)) throw error
  }
}

function describeEvent({ at_ms, type, job, message }: SandboxEventBody): string {
  const time = new Date(at_ms).toISOString().replace('T', ' ').slice(0, 19)
  const rest = [job, message].flatMap((part) => (part === undefined ? [] : [printable(part)]))
  return `  ${[time, printable(type).padEnd(14), ...rest].join('  ').trimEnd()}\n`
}

const eventJson = (event: SandboxEventBody): Json => event as unknown as Json
const eventLine = (event: SandboxEventBody) => `${JSON.stringify(event)}\n`

/** Without `follow`, prints only the output that exists now. */
async function output(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  jobId: string,
  { follow = false }: LogsOptions,
): Promise<void> {
  const { signal } = context
  const { state, position: end } = await client.jobs.get(sandbox, jobId, { signal })
  const upTo = follow || state === 'ended' ? Number.POSITIVE_INFINITY : end
  if (upTo === 0) return
  const enough = new AbortController()
  let position = 0
  const pass = (stream: NodeJS.WritableStream) => async (chunk: Buffer) => {
    await writeTo(stream, chunk)
    position += FRAME_HEADER_BYTES + chunk.length
    if (position >= upTo) enough.abort()
  }
  try {
    const { result } = await attachJob(client, sandbox, {
      jobId,
      signal: AbortSignal.any([enough.signal, signal]),
      onStdout: pass(context.stdout),
      onStderr: pass(context.stderr),
      onGap(lostBytes) {
        position += lostBytes
        context.stderr.write(`craik: ${lostBytes.toLocaleString('en')} older bytes were dropped\n`)
      },
    })
    const output = explanationOf(result, sandbox) ?? `the command exited with ${result.exitCode}`
    if (follow) context.stderr.write(`craik: ${output}\n`)
  } catch (error) {
    if (!enough.signal.aborted && !(follow && signal.aborted)) throw error
  }
}
