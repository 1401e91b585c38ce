/** `craik rebuild`: the sandbox of a login made anew from what is installed now; what persists stays. */
import { Command } from 'commander'
import { loadSettings } from '../../login-sandbox/login-sandbox-settings.ts'
import { craikAgain } from '../../login-sandbox/next-commands.ts'
import { refuseHostVariables } from '../../login-sandbox/refuse-host-variables.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { requireAgreed } from '../confirm.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { formatOption } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { ownRules } from './egress.ts'
import { endSession } from './login-sandbox-session.ts'
import { planSandbox } from './plan-sandbox.ts'
import { choose, type SelectedSandbox, sandboxOf } from './select-sandbox.ts'
import { addSandboxOptions, type UpOptions, up } from './up.ts'

const HELP = `
Keeps the volumes and a mounted workspace. Removes the rest of the home, a
copied workspace and the egress rules of the sandbox; asks first if the
workspace is a copy. To allow the hosts of tools again, use --egress.

Example:
  craik rebuild
`

export const rebuildCommand: NounBuilder = (context) =>
  addSandboxOptions(new Command('rebuild'))
    .option('--yes', 'do not ask')
    .option('--attach', 'open a terminal in it')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: UpOptions & { readonly yes?: boolean }) => {
      const { environment, signal } = context
      const settings = loadSettings(options, environment, process.cwd())
      refuseHostVariables(environment, settings.refusePattern, craikAgain('rebuild', settings, options))
      const chosen = await choose(context, options)
      const notes: string[] = []
      {
        using client = await connect(context)
        const sandbox = await sandboxOf(context, client, chosen)
        // Before anything is lost: what would refuse the new one refuses here.
        await planSandbox(context, client, chosen, options)
        if (sandbox !== undefined) {
          if (sandbox.workspace.mode === 'copy')
            await requireAgreed(context, options, {
              requested: `recreate ${sandbox.name} and delete its copy of the workspace?`,
              would: `the copy of the workspace in ${sandbox.name} would be lost`,
              command: craikAgain('rebuild', settings, options, {}, '--yes'),
            })
          notes.push(...(await findLostRules(context, sandbox, chosen, options)))
          if (sandbox.state === 'running') await endSession(context, chosen)
          await client.sandboxes.delete(sandbox.id, { signal })
        }
      }
      await up(context, { ...options, attach: options.attach === true }, notes)
    })

/** A rule is for the sandbox that it was made for: the new one reaches what is asked for now, and what else it did is told. */
async function findLostRules(
  context: CliContext,
  sandbox: SandboxBody,
  { settings }: SelectedSandbox,
  typed: UpOptions,
): Promise<readonly string[]> {
  const rules = await ownRules(context, sandbox)
  const presets = rules.flatMap(({ preset }) => preset ?? [])
  const lost = [...new Set(presets)].filter((preset) => !settings.egressPresets.includes(preset))
  const hostsOf = (wanted: string) =>
    rules
      .flatMap(({ preset, effect, hosts }) => (preset === null && effect === wanted ? hosts : []))
      .join(', ')
  const again = craikAgain('up', settings, typed, { egress: lost.join(',') })
  const [allowed, denied] = [hostsOf('allow'), hostsOf('deny')]
  return [
    ...(lost.length === 0 ? [] : [`no longer allowed: ${lost.join(', ')}; allow again:  ${again}`]),
    ...(allowed === '' ? [] : [`no longer allowed: ${allowed}; allow again:  craik egress allow`]),
    ...(denied === '' ? [] : [`no longer blocked: ${denied}; block again:  craik egress deny`]),
  ]
}
