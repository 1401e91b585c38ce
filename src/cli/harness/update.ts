/** `craik harness update --check`: checks whether npm has newer versions than the pinned ones. It changes nothing. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { PinnedPackage } from '../../harnesses/packages/newer-versions.ts'
import { listMountedFolders } from '../../store/mounted-folders.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printRows } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'

interface UpdateOptions {
  readonly check?: boolean
  readonly format?: string
}

/** `diff` and `npm outdated` also report a difference with this code. */
const NEWER_EXIT = 1

export function updateCommand(context: CliContext): Command {
  return new Command('update')
    .description('check npm for newer versions than those of this build of Craik')
    .option('--check', 'only check; required, because updating is not supported yet')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: UpdateOptions) => {
      if (options.check !== true)
        throw new CraikError(
          'usage',
          'cannot update harnesses: each build of Craik pins their versions; only a newer build has newer ones',
          {
            hint: 'check for newer versions:  craik harness update --check',
          },
        )
      const rows = await listPinned(context)
      printRows(context, options, rows, COLUMNS, ({ harness, package: name, pinned, latest, isNewer }) => ({
        harness,
        package: name,
        pinned,
        latest,
        newer: isNewer,
      }))
      if (rows.some(({ isNewer }) => isNewer)) context.setExitCode(NEWER_EXIT)
    })
}

async function listPinned(context: CliContext): Promise<readonly PinnedPackage[]> {
  const [{ findNewerVersions }, { PACKAGED_HARNESS_NAMES }] = await Promise.all([
    import('../../harnesses/packages/newer-versions.ts'),
    import('../../harnesses/packages/harness-catalogue.ts'),
  ])
  using progress = new Progress(context, 'asking npm,', ' s')
  using _ = countingSeconds(progress)
  return await findNewerVersions([...PACKAGED_HARNESS_NAMES].sort(), {
    environment: context.environment,
    signal: context.signal,
    mounted: await listMountedFolders(context.home, context.store),
  })
}

const COLUMNS: readonly Column<PinnedPackage>[] = [
  { title: 'harness', value: ({ harness }) => harness },
  { title: 'package', value: (row) => row.package, canShorten: true },
  { title: 'pinned', value: ({ pinned }) => pinned },
  { title: 'latest', value: ({ latest }) => latest },
  { title: '', value: ({ isNewer }) => (isNewer ? 'newer' : '') },
]

const HELP = `
Changes nothing. Craik pins versions that were tested with it, because agents
call their model differently from version to version.

Exit code: 0 no newer version, 1 a newer version exists, 69 cannot reach the
registry.

Example:
  craik harness update --check
`
