/** `craik rebuild`: the sandbox of a login made anew from what is installed now; what persists stays. */
import { Command } from 'commander'
import { refuseVariables } from '../../login-sandbox/refuse.ts'
import { craikAgain } from '../../login-sandbox/same-again.ts'
import { loadSettings } from '../../login-sandbox/settings.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { requireAgreed } from '../ask-first.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { formatOption } from '../output.ts'
import { connect } from '../sandbox/connect.ts'
import { type Chosen, choose, sandboxOf } from './chosen.ts'
import { ownRules } from './egress.ts'
import { planSandbox } from './make.ts'
import { endSession } from './session.ts'
import { addPlaceOptions, type UpOptions, up } from './up.ts'

const HELP = `
The volumes and a workspace in place stay; the rest of the home, a workspace that is a copy, and what it was let reach, do not: with a
copy it asks first. Hosts of tools are granted anew with --egress.

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
      const notes: string[] = []
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
          notes.push(...(await lostRules(context, sandbox, chosen, options)))
          if (sandbox.state === 'running') await endSession(context, chosen)
          await client.sandboxes.delete(sandbox.id, { signal })
        }
      }
      await up(context, { ...options, attach: options.attach === true }, notes)
    })

/** A rule is for the sandbox that it was made for: the new one reaches what is asked for now, and what else it did is told. */
async function lostRules(
  context: CliContext,
  sandbox: SandboxBody,
  { settings }: Chosen,
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
    ...(lost.length === 0 ? [] : [`it may not reach ${lost.join(', ')} any more; let it again:  ${again}`]),
    ...(allowed === '' ? [] : [`it may not reach ${allowed} any more: craik egress allow`]),
    ...(denied === '' ? [] : [`it is not kept from ${denied} any more: craik egress deny`]),
  ]
}
