/** `craik rebuild`: recreates a login sandbox from the versions that are installed now, and keeps persistent data. */
import { Command } from 'commander'
import { loadSettings } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatRepeatCommand } from '../../login-sandbox/next-commands.ts'
import { refuseHostVariables } from '../../login-sandbox/refuse-host-variables.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { requireAgreed } from '../confirm.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { formatOption } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { ownRules } from './egress.ts'
import { endSession } from './login-sandbox-session.ts'
import { planSandbox } from './plan-sandbox.ts'
import { type SelectedSandbox, sandboxOf, selectSandbox } from './select-sandbox.ts'
import { addSandboxOptions, type UpOptions, up } from './up.ts'

const HELP = `
Keeps the volumes (conversations, packages of npm and pip) and your folder.
Removes the rest of the sandbox's home and its egress rules. To allow the hosts
of tools again, use --egress.

With craik up, agents work in your folder itself, except if it had to be copied
(craik up --help). In that case, rebuild deletes the copy, and asks first.

Example:
  craik rebuild
`

export const rebuildCommand: NounBuilder = (context) =>
  addSandboxOptions(new Command('rebuild'))
    .option('--yes', 'do not ask for confirmation')
    .option('--attach', 'open a terminal in the sandbox')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: UpOptions & { readonly yes?: boolean }) => {
      const { environment, signal } = context
      const settings = loadSettings(options, environment, process.cwd())
      refuseHostVariables(
        environment,
        settings.refusePattern,
        formatRepeatCommand('rebuild', settings, options),
      )
      const chosen = await selectSandbox(context, options)
      const notes: string[] = []
      {
        using client = await connect(context)
        const sandbox = await sandboxOf(context, client, chosen)
        // Plans the new sandbox before anything is lost, so that every reason to refuse it appears here.
        await planSandbox(context, client, chosen, options)
        if (sandbox !== undefined) {
          if (sandbox.workspace.mode === 'copy')
            await requireAgreed(context, options, {
              requested: `recreate ${sandbox.name} and delete its copy of the workspace?`,
              would: `the copy of the workspace in ${sandbox.name} would be lost`,
              command: formatRepeatCommand('rebuild', settings, options, {}, '--yes'),
            })
          notes.push(...(await findLostRules(context, sandbox, chosen, options)))
          if (sandbox.state === 'running') await endSession(context, chosen)
          await client.sandboxes.delete(sandbox.id, { signal })
        }
      }
      await up(context, { ...options, attach: options.attach === true }, notes)
    })

/**
 * An egress rule belongs to one sandbox. The new sandbox gets only the rules that the user asks for now, so this
 * returns a note for each other rule.
 */
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
  const again = formatRepeatCommand('up', settings, typed, { egress: lost.join(',') })
  const [allowed, denied] = [hostsOf('allow'), hostsOf('deny')]
  return [
    ...(lost.length === 0 ? [] : [`no longer allowed: ${lost.join(', ')}; allow again:  ${again}`]),
    ...(allowed === '' ? [] : [`no longer allowed: ${allowed}; allow again:  craik egress allow`]),
    ...(denied === '' ? [] : [`no longer blocked: ${denied}; block again:  craik egress deny`]),
  ]
}
