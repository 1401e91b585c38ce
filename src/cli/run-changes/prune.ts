/** `craik run prune`: what is kept of runs and nobody needs any more; removed only when that is said. */
import { Command } from 'commander'
import type { KeptRunFolder } from '../../run/changes/prune.ts'
import type { CliContext } from '../context.ts'
import { type Column, chosenFormat, formatOption, printRows } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'

interface PruneOptions {
  readonly apply?: boolean
  readonly hard?: boolean
  readonly format?: string
}

interface Row extends KeptRunFolder {
  readonly isRemoved: boolean
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'run', value: ({ runId }) => runId },
  { title: 'size', value: ({ bytes }) => formatBytes(bytes) },
  { title: 'why', value: ({ why }) => why, shortens: true },
]

const HELP = `
What a prompt changed is kept until it is removed here: of runs that changed nothing, whose changes were all brought over, or that
were broken off and whose sandbox is gone; with --hard also changes that were not brought over. Shows them; --apply removes
them. The runs themselves stay on record, and their receipts too.

Examples:
  craik run prune
  craik run prune --apply
`

export function pruneCommand(context: CliContext): Command {
  return new Command('prune')
    .description('what is kept of runs and can go: shown, and with --apply removed')
    .option('--apply', 'remove it')
    .option('--hard', 'also what is lost for good: changes that were not brought over')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: PruneOptions) => {
      const { keptRunFolders, removeKeptRun } = await import('../../run/changes/prune.ts')
      const place = {
        ...{ store: await context.store(), log: await context.log() },
        ...{ home: context.home, operator: await context.operator() },
      }
      const rows: Row[] = []
      let held = 0
      for await (const found of keptRunFolders(place, context.signal)) {
        if (!found.isSpare && options.hard !== true) held++
        else {
          const isRemoved = options.apply === true && (await removeKeptRun(place, found))
          rows.push({ ...found, isRemoved })
        }
      }
      print(context, options, rows, held)
    })
}

function print(context: CliContext, options: PruneOptions, rows: readonly Row[], held: number): void {
  const isForPerson = chosenFormat(context, options) === 'table'
  if (isForPerson && rows.length === 0) context.stdout.write('  nothing to remove\n')
  else
    printRows(context, options, rows, COLUMNS, ({ runId, bytes, why, isSpare, isRemoved }) => ({
      ...{ run_id: runId, bytes, why, spare: isSpare, removed: isRemoved },
    }))
  const left = options.apply === true ? rows.filter(({ isRemoved }) => !isRemoved) : []
  for (const { runId } of left)
    context.stderr.write(`craik: ${runId} is being brought over, and was left as it is\n`)
  if (!isForPerson) return
  const hard = options.hard === true ? ' --hard' : ''
  if (rows.length > 0)
    context.stdout.write(
      options.apply === true ? '  removed\n' : `\n  remove them:  craik run prune${hard} --apply\n`,
    )
  if (held > 0)
    context.stdout.write(
      `  kept     ${held.toLocaleString('en')} with changes that were not brought over:  craik run prune --hard\n`,
    )
}
