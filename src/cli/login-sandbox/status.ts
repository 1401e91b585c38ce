/** `craik status`, `craik list` and `craik inspect`: list the login sandboxes, and show one of them in full. */
import { Command } from 'commander'
import { formatDuration } from '../../lib/duration.ts'
import { loginOfSandbox, parseLoginName, sandboxNameOf, volumesOf } from '../../login-sandbox/login-names.ts'
import type { TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatCommand } from '../../login-sandbox/next-commands.ts'
import type { ListedSandboxBody, SandboxBody } from '../../operator/api/bodies.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { type Column, formatOption, printable, printRows, printText, resolveFormat } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { describeIsolation, describeSandbox } from '../sandbox/describe-sandbox.ts'
import { addLoginOptions, sandboxOf, selectSandbox } from './select-sandbox.ts'

interface Row {
  readonly login: string
  readonly sandbox: string
  readonly state: string
  readonly place: string
  readonly workspace: string
  readonly up: string
  readonly id: string
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'login', value: ({ login }) => login },
  { title: 'sandbox', value: ({ sandbox }) => sandbox, dropOrder: 3 },
  { title: 'state', value: ({ state }) => state },
  { title: 'isolation', value: ({ place: location }) => location, dropOrder: 2 },
  { title: 'workspace', value: ({ workspace }) => workspace, canShorten: true },
  { title: 'age', value: ({ up }) => up, dropOrder: 1 },
]

const LISTING_HELP = `
Lists the sandboxes that craik up started, for every login name. To list all
sandboxes, run craik sandbox list.
`

function listing(name: string): NounBuilder {
  return (context) =>
    new Command(name)
      .addOption(formatOption())
      .addHelpText('after', `${LISTING_HELP}\nExample:\n  craik ${name}\n`)
      .action(async (options: { readonly format?: string }) => {
        using client = await connect(context)
        const rows = (await client.sandboxes.list({ signal: context.signal })).flatMap((sandbox) =>
          rowOf(context, sandbox),
        )
        if (rows.length === 0 && resolveFormat(context, options) === 'table')
          printText(context, '  no login sandboxes; start one:  craik up\n')
        else printRows(context, options, rows, COLUMNS, (row) => ({ ...row }))
      })
}

export const statusCommand: NounBuilder = listing('status')
export const listLoginSandboxesCommand: NounBuilder = listing('list')

/** Returns a row only for a login sandbox. The others are in `craik sandbox list`. */
function rowOf({ clock }: CliContext, sandbox: ListedSandboxBody): Row[] {
  const login = loginOfSandbox(sandbox.name)
  if (login === undefined) return []
  const common = { login, sandbox: sandbox.name, id: sandbox.id }
  if (sandbox.state === 'damaged')
    return [{ ...common, state: 'damaged', place: '–', workspace: '–', up: '–' }]
  const { workspace, created_at_ms } = sandbox
  return [
    {
      ...common,
      state: sandbox.state,
      place: describeIsolation(sandbox),
      workspace: workspace.mode === 'in-place' ? workspace.folder : 'a copy',
      up: formatDuration(Math.max(0, clock.nowMs() - created_at_ms)),
    },
  ]
}

const INSPECT_HELP = `
Without a login name, shows the sandbox that craik up would start.

Examples:
  craik inspect
  craik inspect octo --format json
`

export const inspectCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('inspect'))
    .argument('[login]', 'name of the login sandbox: octo for octo-sandbox')
    .addOption(formatOption())
    .addHelpText('after', INSPECT_HELP)
    .action(async (named: string | undefined, options: TypedOptions & { readonly format?: string }) => {
      const login = named === undefined ? options.login : parseLoginName(named, 'the login')
      const chosen = await selectSandbox(context, { ...options, login })
      using client = await connect(context)
      const sandbox = await sandboxOf(context, client, chosen)
      const known = await client.volumes.list({ signal: context.signal })
      const volumes = volumesOf(chosen.login).map((volume) => ({
        ...volume,
        bytes: known.find(({ name }) => name === volume.name)?.size_bytes ?? null,
      }))
      const { settings } = chosen
      if (resolveFormat(context, options) !== 'table') {
        const record = {
          login: chosen.login,
          sandbox: sandboxNameOf(chosen.login),
          profile: settings.profile ?? null,
          expected_login: settings.expectedLogin ?? null,
          workspace: settings.workspace,
          inbox: settings.inbox,
          credentials: settings.credentials,
          volumes,
          place: (sandbox as SandboxBody | undefined) ?? null,
        }
        context.stdout.write(`${JSON.stringify(record)}\n`)
        return
      }
      printText(
        context,
        [
          sandbox === undefined
            ? `  ${chosen.sandboxName} does not exist; start it:  ${formatCommand('up', settings)}\n`
            : describeSandbox(sandbox, context.clock.nowMs()),
          `  ${'profile'.padEnd(10)}  ${settings.profile ?? 'none'}\n`,
          `  ${'inbox'.padEnd(10)}  ${printable(settings.inbox)}\n`,
          ...volumes.map(
            ({ name, at, holds, bytes }) =>
              `  ${'volume'.padEnd(10)}  ${name} at ~/${at} · ${bytes === null ? 'not created yet' : formatBytes(bytes)} · ${holds}\n`,
          ),
        ].join(''),
      )
    })
