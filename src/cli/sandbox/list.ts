/** `craik sandbox list` and `show`: print sandboxes. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { ListedSandboxBody } from '../../operator/api/bodies.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord, printRows, printText, resolveFormat } from '../output.ts'
import { describeCapacity, nearCapacity } from './capacity.ts'
import { connect } from './connect-supervisor.ts'
import { describeSandbox, SANDBOX_COLUMNS } from './describe-sandbox.ts'

interface FormatOptions {
  readonly format?: string
}

export function listSandboxesCommand(context: CliContext): Command {
  return new Command('list')
    .description('list all sandboxes of this Craik home')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik sandbox list --format json\n')
    .action(async (options: FormatOptions) => {
      using client = await connect(context)
      const sandboxes = await client.sandboxes.list({ signal: context.signal })
      printRows(context, options, sandboxes, SANDBOX_COLUMNS(context.clock.nowMs()), sandboxJson)
      if (resolveFormat(context, options) !== 'table') return
      const near = nearCapacity(await client.sandboxes.capacity({ signal: context.signal }))
      if (near.length > 0)
        printText(
          context,
          `\n  near the limits of all sandboxes: ${describeCapacity(near)}  (config/limits.yaml)\n`,
        )
    })
}

export function showSandboxCommand(context: CliContext): Command {
  return new Command('show')
    .description('show a sandbox: its state, its limits and how they are enforced')
    .argument('<id>', 'id or name')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik sandbox show parser\n')
    .action(async (id: string, options: FormatOptions) => {
      using client = await connect(context)
      const sandbox = await client.sandboxes.get(id, { signal: context.signal })
      printRecord(context, options, sandboxJson(sandbox), () =>
        describeSandbox(sandbox, context.clock.nowMs()),
      )
    })
}

/** Returns the facts as the API reports them. */
function sandboxJson(sandbox: ListedSandboxBody): Json {
  return sandbox as unknown as Json
}
