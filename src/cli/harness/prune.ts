/** `craik harness prune`: frees the space of harnesses that no sandbox of this home uses. */
import { existsSync } from 'node:fs'
import { Command } from 'commander'
import type { FoundHarness } from '../../harnesses/packages/list-installed.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'

interface PruneOptions {
  readonly all?: boolean
  readonly format?: string
}

/** More sandboxes than a home can contain. */
const ALL = 100_000

export function pruneHarnessesCommand(context: CliContext): Command {
  return new Command('prune')
    .description('remove harnesses of other builds of Craik that no sandbox uses')
    .option('--all', 'include harnesses of this build; container images keep theirs')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik harness prune\n')
    .action(async (options: PruneOptions) => {
      const { pruneInstalled } = await import('../../harnesses/packages/list-installed.ts')
      const owner = { craikHome: context.home.root, environment: context.environment }
      const { removed, kept: stored } = await pruneInstalled(owner, await harnessesInUse(context), {
        all: options.all === true,
        signal: context.signal,
      })
      const record = {
        removed: removed.map(({ id, bytes }) => ({ id, bytes })),
        kept: stored.map(({ harness, why }) => ({ id: harness.id, why })),
      }
      printRecord(context, options, record, () => {
        const lines = [
          ...removed.map((one) => `  removed  ${one.id}  ${formatBytes(one.bytes)}`),
          ...stored.map(({ harness, why }) => `  kept     ${harness.id}  ${why}`),
        ]
        return lines.length === 0 ? '  none\n' : `${lines.join('\n')}\n`
      })
    })
}

/** Collects the ids from anywhere in the records, so that a damaged record still protects its harnesses. */
async function harnessesInUse(context: CliContext): Promise<ReadonlySet<FoundHarness['id']>> {
  if (!existsSync(context.home.database)) return new Set()
  const store = await context.store()
  const rows = await store.read((tables) => tables.sandboxes.list({}, ALL))
  return new Set(
    rows.flatMap(({ document }) => document.match(/[a-z-]+-[0-9][0-9A-Za-z.]*-[0-9a-f]{12}/g) ?? []),
  )
}
