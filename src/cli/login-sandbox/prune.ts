/** `craik prune`: what of login sandboxes nobody needs any more; removed only when that is said. */
import { Command } from 'commander'
import { loginOfSandbox, volumesOf } from '../../login-sandbox/names.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { type Column, formatOption, printRows, resolveFormat } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { connect } from '../sandbox/connect.ts'
import { deleteVolume } from '../volume.ts'
import { forgetSession } from './session.ts'

interface PruneOptions {
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
  { title: 'why', value: ({ why }) => why, shortens: true },
]

const HELP = `
Lists stopped login sandboxes without a copied workspace; with --hard also those
with one, and volumes that no sandbox uses. --apply removes them. To remove
images, run craik image prune.

Examples:
  craik prune
  craik prune --apply
`

export const pruneLoginSandboxCommand: NounBuilder = (context) =>
  new Command('prune')
    .option('--apply', 'remove them')
    .option('--hard', 'also unused volumes and copied workspaces, which cannot be recovered')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: PruneOptions) => {
      using client = await connect(context)
      const rows = [
        ...(await stoppedSandboxes(context, client, options.hard === true)),
        ...(options.hard === true ? await unusedVolumes(context, client) : []),
      ]
      if (options.apply === true) for (const row of rows) await remove(context, client, row)
      const isForPerson = resolveFormat(context, options) === 'table'
      if (isForPerson && rows.length === 0) context.stdout.write('  nothing to remove\n')
      else printRows(context, options, rows, COLUMNS, (row) => ({ ...row, removed: options.apply === true }))
      if (isForPerson && rows.length > 0)
        context.stdout.write(
          options.apply === true
            ? '  removed\n'
            : `\n  remove them:  craik prune${options.hard === true ? ' --hard' : ''} --apply\n`,
        )
    })

async function stoppedSandboxes(
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

async function unusedVolumes({ signal }: CliContext, client: ApiClient): Promise<Row[]> {
  const endings = volumesOf('').map(({ name }) => name)
  return (await client.volumes.list({ signal })).flatMap(({ name, used_by, size_bytes }): Row[] =>
    used_by === null && endings.some((ending) => name.endsWith(ending))
      ? [{ kind: 'volume', name, why: 'no sandbox uses it', bytes: size_bytes }]
      : [],
  )
}

async function remove(context: CliContext, client: ApiClient, { kind, name }: Row): Promise<void> {
  const { signal } = context
  if (kind === 'volume') await deleteVolume(context, client, name, 'craik prune')
  else {
    await client.sandboxes.delete(name, { signal })
    forgetSession(context, loginOfSandbox(name)!)
  }
}
