/** `craik snapshot list` and `show`: print snapshots. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { ListedSnapshotBody } from '../../operator/api/bodies.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord, printRows } from '../output.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { describeSnapshot, SNAPSHOT_COLUMNS } from './describe-snapshot.ts'

interface FormatOptions {
  readonly format?: string
}

export function listSnapshotsCommand(context: CliContext): Command {
  return new Command('list')
    .description('list the snapshots of this Craik home')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik snapshot list --format json\n')
    .action(async (options: FormatOptions) => {
      using client = await connect(context)
      const snapshots = await client.snapshots.list({ signal: context.signal })
      printRows(context, options, snapshots, SNAPSHOT_COLUMNS(context.clock.nowMs()), snapshotJson)
    })
}

export function showSnapshotCommand(context: CliContext): Command {
  return new Command('show')
    .description('show a snapshot: its sandbox, its contents and its digest')
    .argument('<id>', 'id or name')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik snapshot show parser-before\n')
    .action(async (id: string, options: FormatOptions) => {
      using client = await connect(context)
      const snapshot = await client.snapshots.get(id, { signal: context.signal })
      printRecord(context, options, snapshotJson(snapshot), () =>
        describeSnapshot(snapshot, context.clock.nowMs()),
      )
    })
}

/** Returns the facts as the API reports them. */
function snapshotJson(snapshot: ListedSnapshotBody): Json {
  return snapshot as unknown as Json
}
