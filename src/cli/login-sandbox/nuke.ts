/** `craik nuke`: removes a login sandbox and all its data. */
import { Command } from 'commander'
import { loginOfConversations, loginOfSandbox, volumesOf } from '../../login-sandbox/login-names.ts'
import { loadSettings, type TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatCommand } from '../../login-sandbox/next-commands.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { requireAgreed } from '../confirm.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { formatOption, printable, printRows, resolveFormat } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { deleteVolume } from '../volume.ts'
import { endSession, forgetSession, saveBeforeRemoval } from './login-sandbox-session.ts'
import { addLoginOptions, selectSandbox } from './select-sandbox.ts'

interface NukeOptions extends TypedOptions {
  readonly all?: boolean
  readonly yes?: boolean
  readonly format?: string
}

interface RemovedItems {
  readonly kind: 'sandbox' | 'volume'
  readonly name: string
}

const HELP = `
Saves new conversations to the inbox, then removes the sandbox, a copied
workspace in it, and its volumes. Keeps your own folder, the inbox, the profiles
and the logins of this machine. Asks for confirmation first. To remove images,
run craik image prune.

Examples:
  craik nuke
  craik nuke --all --yes
`

export const nukeCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('nuke'))
    .option('--all', 'remove all login sandboxes and their volumes')
    .option('--yes', 'do not ask for confirmation')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: NukeOptions) => {
      using client = await connect(context)
      const found = await findSandboxesAndVolumes(context, client, options)
      if (found.length > 0)
        await requireAgreed(context, options, {
          requested: `remove ${found.map(({ name }) => printable(name)).join(', ')}, with everything in them?`,
          would: `${found.map(({ name }) => name).join(', ')} would be removed`,
          command:
            options.all === true
              ? 'craik nuke --all --yes'
              : formatCommand('nuke', loadSettings(options, context.environment, process.cwd()), '--yes'),
        })
      // The conversations belong to the user, so Craik saves them to the inbox before it removes anything.
      for (const { kind, name } of found) {
        const login = kind === 'volume' ? loginOfConversations(name) : undefined
        if (login !== undefined) await saveBeforeRemoval(context, login, options)
      }
      for (const { kind, name } of found)
        if (kind === 'sandbox') await endSession(context, { login: loginOfSandbox(name)! })
      for (const { kind, name } of found) {
        if (kind === 'volume') await deleteVolume(context, client, name, 'craik nuke')
        else await client.sandboxes.delete(name, { signal: context.signal })
      }
      for (const { kind, name } of found) {
        const login = kind === 'volume' ? loginOfConversations(name) : loginOfSandbox(name)
        if (login !== undefined) forgetSession(context, login)
      }
      if (resolveFormat(context, options) !== 'table')
        printRows(context, options, found, [], (one) => ({ ...one, deleted: true }))
      else if (found.length === 0) context.stdout.write('  nothing to remove\n')
      else for (const { kind, name } of found) context.stdout.write(`  removed  ${kind} ${printable(name)}\n`)
    })

/** Lists each sandbox before its volumes, because a volume cannot be removed while a sandbox uses it. */
async function findSandboxesAndVolumes(
  context: CliContext,
  client: ApiClient,
  options: NukeOptions,
): Promise<RemovedItems[]> {
  const { signal } = context
  const [sandboxes, volumes] = [
    await client.sandboxes.list({ signal }),
    await client.volumes.list({ signal }),
  ]
  const known = sandboxes.flatMap(({ name }) => loginOfSandbox(name) ?? [])
  const suffixes = volumesOf('').map(({ name }) => name)
  const keeping = volumes.flatMap(({ name }) => {
    const suffix = suffixes.find((one) => name.endsWith(one))
    return suffix === undefined ? [] : [name.slice(0, -suffix.length)]
  })
  const logins =
    options.all === true
      ? [...new Set([...known, ...keeping])]
      : [(await selectSandbox(context, options)).login]
  return logins.flatMap((login): RemovedItems[] => [
    ...sandboxes
      .filter(({ name }) => loginOfSandbox(name) === login)
      .map(({ name }): RemovedItems => ({ kind: 'sandbox', name })),
    ...volumesOf(login)
      .filter(({ name }) => volumes.some((volume) => volume.name === name))
      .map(({ name }): RemovedItems => ({ kind: 'volume', name })),
  ])
}
