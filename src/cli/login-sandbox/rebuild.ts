/** `craik rebuild`: the sandbox of a login made anew from what is installed now; what persists stays. */
import { Command } from 'commander'
import { refuseVariables } from '../../login-sandbox/refuse.ts'
import { craikAgain } from '../../login-sandbox/same-again.ts'
import { loadSettings } from '../../login-sandbox/settings.ts'
import { requireAgreed } from '../ask-first.ts'
import type { NounBuilder } from '../context.ts'
import { formatOption } from '../output.ts'
import { connect } from '../sandbox/connect.ts'
import { choose, sandboxOf } from './chosen.ts'
import { planSandbox } from './make.ts'
import { endSession } from './session.ts'
import { addPlaceOptions, type UpOptions, up } from './up.ts'

const HELP = `
The volumes and a workspace in place stay; the rest of the home, and a workspace that is a copy, do not: with a copy it asks first.

Example:
  craik rebuild
`

export const rebuildCommand: NounBuilder = (context) =>
  addPlaceOptions(new Command('rebuild'))
    .option('--yes', 'do not ask')
    .option('--attach', 'open a terminal in it')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: UpOptions & { readonly yes?: boolean }) => {
      const { environment, signal } = context
      const settings = loadSettings(options, environment, process.cwd())
      refuseVariables(environment, settings.refusePattern, craikAgain('rebuild', settings, options))
      const chosen = await choose(context, options)
      {
        using client = await connect(context)
        const sandbox = await sandboxOf(context, client, chosen)
        // Before anything is lost: what would refuse the new one refuses here.
        await planSandbox(context, client, chosen, options)
        if (sandbox !== undefined) {
          if (sandbox.workspace.mode === 'copy')
            await requireAgreed(context, options, {
              asked: `make ${sandbox.name} anew, without the copy of the workspace that is in it?`,
              would: `the copy of the workspace in ${sandbox.name} would be lost`,
              command: craikAgain('rebuild', settings, options, {}, '--yes'),
            })
          if (sandbox.state === 'running') await endSession(context, chosen)
          await client.sandboxes.delete(sandbox.id, { signal })
        }
      }
      await up(context, { ...options, attach: options.attach === true })
    })
