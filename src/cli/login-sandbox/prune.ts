/**
 * `craik prune`: lists login sandboxes and volumes that are no longer needed, and removes them only with `--delete`.
 */
import { Command, Option } from 'commander'
import { loginOfConversations, loginOfSandbox, volumesOf } from '../../login-sandbox/login-names.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { type Column, formatOption, printRows, printText, resolveFormat } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { deleteVolume } from '../volume.ts'
import { forgetSession, saveBeforeRemoval } from './login-sandbox-session.ts'

interface PruneOptions {
  readonly delete?: boolean
  /** The earlier name of `delete`. */
  readonly apply?: boolean
  readonly hard?: boolean
  readonly format?: string
}

interface Row {
  readonly kind: 'sandbox' | 'volume'
  readonly name: string
  readonly why: string
  readonly bytes: number | null
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'what', value: ({ kind }) => kind },
  { title: 'name', value: ({ name }) => name },
  { title: 'size', value: ({ bytes }) => (bytes === null ? '–' : formatBytes(bytes)) },
  { title: 'why', value: ({ why }) => why, canShorten: true },
]

const HELP = `
Lists stopped login sandboxes that work in your folder itself. With --hard also
lists those with a copy of it, and volumes of login sandboxes that no sandbox
uses. --delete removes what is listed, after it saved new conversations to the
inbox. To remove images, run craik image prune.

Examples:
  craik prune
  craik prune --delete
`

export const pruneLoginSandboxCommand: NounBuilder = (context) =>
  new Command('prune')
    .option('--delete', 'remove them (default: only list them)')
    .addOption(new Option('--apply').hideHelp())
    .option('--hard', 'include unused volumes and copied workspaces; their contents are lost')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: PruneOptions) => {
      using client = await connect(context)
      const rows = [
        ...(await listStoppedSandboxes(context, client, options.hard === true)),
        ...(options.hard === true ? await findUnusedVolumes(context, client) : []),
      ]
      if (isDeleting(options)) await removeAll(context, client, rows)
      const isForPerson = resolveFormat(context, options) === 'table'
      if (isForPerson && rows.length === 0) printText(context, '  nothing to remove\n')
      else printRows(context, options, rows, COLUMNS, (row) => ({ ...row, removed: isDeleting(options) }))
      if (isForPerson && rows.length > 0)
        printText(
          context,
          isDeleting(options)
            ? '  removed\n'
            : `\n  remove them:  craik prune${options.hard === true ? ' --hard' : ''} --delete\n`,
        )
    })

async function listStoppedSandboxes(
  { signal }: CliContext,
  client: ApiClient,
  copiesToo: boolean,
): Promise<Row[]> {
  return (await client.sandboxes.list({ signal })).flatMap((sandbox): Row[] => {
    if (loginOfSandbox(sandbox.name) === undefined || sandbox.state !== 'stopped') return []
    const isCopy = sandbox.workspace.mode === 'copy'
    if (isCopy && !copiesToo) return []
    const why = isCopy ? 'stopped; has a copy of its workspace' : 'stopped'
    return [{ kind: 'sandbox', name: sandbox.name, why, bytes: null }]
  })
}

async function findUnusedVolumes({ signal }: CliContext, client: ApiClient): Promise<Row[]> {
  const endings = volumesOf('').map(({ name }) => name)
  return (await client.volumes.list({ signal })).flatMap(({ name, used_by, size_bytes }): Row[] =>
    used_by === null && endings.some((ending) => name.endsWith(ending))
      ? [{ kind: 'volume', name, why: 'no sandbox uses it', bytes: size_bytes }]
      : [],
  )
}

/**
 * Saves all conversations before it removes anything. The record of a login names its inbox, so Craik keeps the record
 * as long as the volume with the conversations exists.
 */
async function removeAll(context: CliContext, client: ApiClient, rows: readonly Row[]): Promise<void> {
  for (const { kind, name } of rows) {
    const login = kind === 'volume' ? loginOfConversations(name) : undefined
    if (login !== undefined) await saveBeforeRemoval(context, login, {})
  }
  for (const { kind, name } of rows) {
    if (kind === 'sandbox') {
      await client.sandboxes.delete(name, { signal: context.signal })
      continue
    }
    await deleteVolume(context, client, name, 'craik prune')
    const login = loginOfConversations(name)
    if (login !== undefined) forgetSession(context, login)
  }
}

function isDeleting(options: PruneOptions): boolean {
  return options.delete === true || options.apply === true
}
