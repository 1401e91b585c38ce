/** `craik enter`: opens another terminal in a login sandbox. */
import { Command } from 'commander'
import { loadSettings, type TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatCommand } from '../../login-sandbox/next-commands.ts'
import type { NounBuilder } from '../context.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { requireTerminal } from '../sandbox/raw-terminal.ts'
import { addLoginOptions, runningSandboxOf, selectSandbox } from './select-sandbox.ts'
import { openTerminalAndSave } from './up.ts'

const HELP = `
Press Ctrl-] then d to detach; the shell keeps running.

Exit code: that of the shell. Before the shell starts, 2 if the sandbox is not
running, or after wrong usage.

Example:
  craik enter
`

export const enterCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('enter'))
    .addHelpText('after', HELP)
    .action(async (options: TypedOptions) => {
      const settings = loadSettings(options, context.environment, process.cwd())
      requireTerminal(context, formatCommand('exec', settings, '--', 'ls'))
      const chosen = await selectSandbox(context, options)
      using client = await connect(context)
      const sandbox = await runningSandboxOf(context, client, chosen)
      await openTerminalAndSave(
        context,
        client,
        sandbox,
        chosen,
        await chosen.logins.accounts(context.signal),
      )
    })
