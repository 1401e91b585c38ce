/** `craik run prune`: lists saved changes that are no longer needed, and removes them only with `--delete`. */
import { Command, Option } from 'commander'
import type { ChangeSetFolder } from '../../run/changes/prune-change-sets.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printNote, printRows, printText, resolveFormat } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'

interface PruneOptions {
  readonly delete?: boolean
  /** The earlier name of `delete`. */
  readonly apply?: boolean
  readonly hard?: boolean
  readonly format?: string
}

interface Row extends ChangeSetFolder {
  readonly isRemoved: boolean
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'run', value: ({ runId }) => runId },
  { title: 'size', value: ({ bytes }) => formatBytes(bytes) },
  { title: 'why', value: ({ why }) => why, canShorten: true },
]

const HELP = `
Craik saves the changes of each prompt until you remove them with this command.
It lists the saved changes of runs that changed nothing, whose changes were all
applied, or that were interrupted and whose sandbox is gone. Runs and receipts
stay recorded.

Examples:
  craik run prune
  craik run prune --delete
`

export function pruneRunsCommand(context: CliContext): Command {
  return new Command('prune')
    .description('list saved changes that can be removed; --delete removes them')
    .option('--delete', 'remove them (default: only list them)')
    .addOption(new Option('--apply').hideHelp())
    .option('--hard', 'include changes that were not applied; they are lost')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: PruneOptions) => {
      const { listChangeSetFolders, removeChangeSet } = await import('../../run/changes/prune-change-sets.ts')
      const deps = {
        store: await context.store(),
        log: await context.log(),
        home: context.home,
        operator: await context.operator(),
      }
      const rows: Row[] = []
      let held = 0
      for await (const found of listChangeSetFolders(deps, context.signal)) {
        if (!found.isSpare && options.hard !== true) held++
        else {
          const isRemoved = isDeleting(options) && (await removeChangeSet(deps, found))
          rows.push({ ...found, isRemoved })
        }
      }
      print(context, options, rows, held)
    })
}

function print(context: CliContext, options: PruneOptions, rows: readonly Row[], held: number): void {
  const isForPerson = resolveFormat(context, options) === 'table'
  if (isForPerson && rows.length === 0) printText(context, '  nothing to remove\n')
  else
    printRows(context, options, rows, COLUMNS, ({ runId, bytes, why, isSpare, isRemoved }) => ({
      run_id: runId,
      bytes,
      why,
      spare: isSpare,
      removed: isRemoved,
    }))
  const left = isDeleting(options) ? rows.filter(({ isRemoved }) => !isRemoved) : []
  for (const { runId } of left)
    printNote(context, `craik: not removed, because it is being applied: ${runId}\n`)
  if (!isForPerson) return
  const hard = options.hard === true ? ' --hard' : ''
  if (rows.length > 0)
    printText(
      context,
      isDeleting(options) ? '  removed\n' : `\n  remove them:  craik run prune${hard} --delete\n`,
    )
  if (held > 0)
    printText(
      context,
      `  kept     ${held.toLocaleString('en')} with changes that were not applied:  craik run prune --hard\n`,
    )
}

function isDeleting(options: PruneOptions): boolean {
  return options.delete === true || options.apply === true
}
