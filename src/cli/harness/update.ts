/** `craik harness update --check`: whether npm has newer versions than those that are pinned. It changes nothing. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { PinnedPackage } from '../../harnesses/packages/newer.ts'
import { mountedFolders } from '../../store/mounted-folders.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printRows } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'

interface UpdateOptions {
  readonly check?: boolean
  readonly format?: string
}

/** As `diff` and `npm outdated` say that there is a difference. */
const NEWER_EXIT = 1

export function updateCommand(context: CliContext): Command {
  return new Command('update')
    .description('ask npm whether there are newer versions than this build of Craik has tried')
    .option('--check', 'only ask; there is no other way yet')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: UpdateOptions) => {
      if (options.check !== true)
        throw new CraikError(
          'usage',
          'versions are pinned by the build of Craik, and only a newer one has others',
          {
            hint: 'see whether there are newer ones:  craik harness update --check',
          },
        )
      const rows = await look(context)
      printRows(context, options, rows, COLUMNS, ({ harness, package: name, pinned, latest, isNewer }) => ({
        ...{ harness, package: name, pinned, latest, newer: isNewer },
      }))
      if (rows.some(({ isNewer }) => isNewer)) context.setExitCode(NEWER_EXIT)
    })
}

async function look(context: CliContext): Promise<readonly PinnedPackage[]> {
  const [{ lookForNewer }, { HARNESS_NAMES }] = await Promise.all([
    import('../../harnesses/packages/newer.ts'),
    import('../../harnesses/packages/catalogue.ts'),
  ])
  using progress = new Progress(context, 'asking npm,', ' s')
  using _ = countingSeconds(progress)
  return await lookForNewer([...HARNESS_NAMES].sort(), {
    ...{ environment: context.environment, signal: context.signal },
    mounted: await mountedFolders(context.home, context.store),
  })
}

const COLUMNS: readonly Column<PinnedPackage>[] = [
  { title: 'harness', value: ({ harness }) => harness },
  { title: 'package', value: (row) => row.package, shortens: true },
  { title: 'pinned', value: ({ pinned }) => pinned },
  { title: 'latest', value: ({ latest }) => latest },
  { title: '', value: ({ isNewer }) => (isNewer ? 'newer' : '') },
]

const HELP = `
It changes nothing: how an agent speaks to its model differs from version to version, so each is tried before it is
pinned. Exit 0: none is newer. Exit 1: at least one is. Exit 69: the registry cannot be reached.

Example:
  craik harness update --check
`
