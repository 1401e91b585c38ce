/** `craik enter`: another terminal in the sandbox of a login. */
import { Command } from 'commander'
import { loadSettings, type Typed } from '../../login-sandbox/login-sandbox-settings.ts'
import { craikFor } from '../../login-sandbox/next-commands.ts'
import type { NounBuilder } from '../context.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { requireTerminal } from '../sandbox/raw-terminal.ts'
import { addLoginOptions, choose, runningSandboxOf } from './select-sandbox.ts'
import { stay } from './up.ts'

const HELP = `
Press Ctrl-] then d to detach; the shell keeps running. Exits with the exit code
of the shell, or with 2 if the sandbox is not running.

Example:
  craik enter
`

export const enterCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('enter'))
    .addHelpText('after', HELP)
    .action(async (options: Typed) => {
      const settings = loadSettings(options, context.environment, process.cwd())
      requireTerminal(context, craikFor('exec', settings, '--', 'ls'))
      const chosen = await choose(context, options)
      using client = await connect(context)
      const sandbox = await runningSandboxOf(context, client, chosen)
      await stay(context, client, sandbox, chosen, await chosen.logins.accounts(context.signal))
    })
