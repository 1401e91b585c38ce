/** `craik sandbox stop`, `resume` and `pause`: change one sandbox or several. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { parseDuration } from '../../lib/duration.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { GRACE_BOUNDS } from '../../sandboxes/limit-bounds.ts'
import type { CallOptions } from '../../sdk/api-paths.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { grantOption } from '../grant-option.ts'
import { formatOption, printable, printRows, printText, resolveFormat } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'
import { reportError } from '../report-error.ts'
import { connect } from './connect-supervisor.ts'
import { beginningLines } from './describe-sandbox.ts'
import { offerKeys } from './environment-keys.ts'
import { resumeAndReport } from './resume.ts'

interface LifecycleOptions {
  readonly grace?: string
  readonly grant?: string
  readonly format?: string
}

type Change = (client: ApiClient, sandbox: string, options: CallOptions) => Promise<SandboxBody>

export function stopCommand(context: CliContext): Command {
  return command('stop', 'stop sandboxes and keep their disks')
    .option('--grace <duration>', 'time between SIGTERM and SIGKILL for running commands', '5s')
    .addHelpText('after', STOP_HELP)
    .action((ids: readonly string[], options: LifecycleOptions) => {
      const grace_ms = graceOf(options.grace)
      return changeEach(context, ids, options, 'stopping', (client, sandbox, call) =>
        client.sandboxes.stop(sandbox, { grace_ms }, call),
      )
    })
}

export function resumeCommand(context: CliContext): Command {
  return command('resume', 'start stopped sandboxes, or continue paused ones')
    .addHelpText('after', RESUME_HELP)
    .action((ids: readonly string[], options: LifecycleOptions) =>
      changeEach(context, ids, options, 'resuming', async (client, sandbox, call) => {
        await offerKeys(context, client)
        return resumeAndReport(context, client, sandbox, call)
      }),
    )
}

export function pauseCommand(context: CliContext): Command {
  return command('pause', 'freeze all processes of sandboxes')
    .addHelpText('after', PAUSE_HELP)
    .action((ids: readonly string[], options: LifecycleOptions) =>
      changeEach(context, ids, options, 'pausing', (client, sandbox, call) =>
        client.sandboxes.pause(sandbox, call),
      ),
    )
}

function command(verb: string, description: string): Command {
  return new Command(verb)
    .description(description)
    .argument('<ids...>', 'ids or names')
    .addOption(grantOption())
    .addOption(formatOption())
}

function graceOf(text = '5s'): number {
  if (text === '0' || text === '0s') return 0
  const ms = parseDuration(text, '--grace')
  if (ms <= GRACE_BOUNDS.most) return ms
  throw new CraikError('usage', `--grace is at most ${GRACE_BOUNDS.most / 1000}s`, {
    hint: 'craik sandbox stop ID --grace 30s',
  })
}

/** Continues after a failure. The exit code is that of the first failure. */
async function changeEach(
  context: CliContext,
  ids: readonly string[],
  options: LifecycleOptions,
  doing: string,
  change: Change,
): Promise<void> {
  using client = await connect(context)
  const call = { signal: context.signal, ...(options.grant !== undefined && { grantId: options.grant }) }
  const changed: SandboxBody[] = []
  let failed = 0
  for (const id of new Set(ids)) {
    context.signal.throwIfAborted()
    using progress = new Progress(context, `${doing} ${printable(id)},`, ' s')
    using _ = countingSeconds(progress)
    try {
      changed.push(await change(client, id, call))
    } catch (error) {
      context.signal.throwIfAborted()
      failed ||= await reportError(context, error)
    }
  }
  if (resolveFormat(context, options) === 'table')
    for (const sandbox of changed)
      printText(
        context,
        `  ${sandbox.state.padEnd(8)} ${printable(sandbox.name)} · ${sandbox.id}\n${formatBeginning(sandbox)}`,
      )
  else printRows(context, options, changed, [], (sandbox) => sandbox as never)
  if (failed !== 0) context.setExitCode(failed)
}

/** Returns what a running sandbox got. A stopped or paused sandbox has nothing to report. */
function formatBeginning(sandbox: SandboxBody): string {
  return sandbox.state === 'running' ? beginningLines(sandbox) : ''
}

const STOP_HELP = `
Running commands get SIGTERM, and SIGKILL after the grace time. The sandbox
keeps its disk, its policy and its grants. A sandbox that is already stopped is
not changed.

Example:
  craik sandbox stop parser
`
const RESUME_HELP = `
Commands that ran before a stop are not started again. A running sandbox is not
changed.

Example:
  craik sandbox resume parser
`
const PAUSE_HELP = `
A paused sandbox keeps its memory and uses no CPU until you resume it. If this
machine cannot pause it, the error says why.

Example:
  craik sandbox pause parser
`
