/** `craik sandbox list` and `show`. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { ListedSandboxBody } from '../../operator/api/bodies.ts'
import type { CliContext } from '../context.ts'
import { chosenFormat, formatOption, printRecord, printRows } from '../output.ts'
import { connect } from './connect.ts'
import { describeRoom, nearRoom } from './room.ts'
import { describeSandbox, SANDBOX_COLUMNS } from './view.ts'

interface FormatOptions {
  readonly format?: string
}

export function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list the sandboxes of this home')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik sandbox list --format json\n')
    .action(async (options: FormatOptions) => {
      using client = await connect(context)
      const sandboxes = await client.sandboxes.list({ signal: context.signal })
      printRows(context, options, sandboxes, SANDBOX_COLUMNS(context.clock.nowMs()), sandboxJson)
      if (chosenFormat(context, options) !== 'table') return
      const near = nearRoom(await client.sandboxes.room({ signal: context.signal }))
      if (near.length > 0)
        context.stdout.write(
          `\n  near the limit of all of them: ${describeRoom(near)}  (config/limits.yaml)\n`,
        )
    })
}

export function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show one sandbox: its state, its limits and how they are held')
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

/** As the API says it. */
function sandboxJson(sandbox: ListedSandboxBody): Json {
  return sandbox as unknown as Json
}
