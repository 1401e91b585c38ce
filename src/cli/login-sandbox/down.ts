/** `craik down`: saves the conversations and changes of a login sandbox, and stops it. */
import { Command } from 'commander'
import type { TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import type { NounBuilder } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { endSession } from './login-sandbox-session.ts'
import { removeForwardedLogins } from './prepare-sandbox.ts'
import { addLoginOptions, runningSandboxOf, selectSandbox } from './select-sandbox.ts'

const HELP = `
Saves new conversations to the inbox, and a list of the packages, programs and
variables that changed in the sandbox (changes.md), like craik save. Then stops
all processes of the sandbox. Its disk, volumes and workspace stay, and craik up
starts it again.

It is an error if the sandbox is not running (exit code 2).

Example:
  craik down
`

export const downCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('down'))
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: TypedOptions & { readonly format?: string }) => {
      const chosen = await selectSandbox(context, options)
      using client = await connect(context)
      const sandbox = await runningSandboxOf(context, client, chosen)
      await endSession(context, chosen)
      await removeForwardedLogins(context, client, sandbox, chosen.settings)
      {
        using progress = new Progress(context, `stopping ${printable(sandbox.name)},`, ' s')
        using _ = countingSeconds(progress)
        await client.sandboxes.stop(sandbox.id, {}, { signal: context.signal })
      }
      const record = { login: chosen.login, sandbox: sandbox.name, id: sandbox.id, state: 'stopped' }
      printRecord(
        context,
        options,
        record,
        () => `  down     ${printable(sandbox.name)} · its disk and volumes are kept\n`,
      )
    })
