/** `craik snapshot delete`: the only way in which a snapshot goes. */
import type { Command } from 'commander'
import type { CliContext } from '../context.ts'
import { type DeleteOptions, deleteChosen, deletingCommand, requireChoice } from '../delete-each.ts'
import { connect } from '../sandbox/connect.ts'

interface SnapshotDeleteOptions extends DeleteOptions {
  readonly grant?: string
}

export function deleteCommand(context: CliContext): Command {
  return deletingCommand('snapshot', 'remove snapshots; sandboxes that were made from them stay')
    .option('--grant <id>', 'the grant to decide with (default: a usable one)')
    .addHelpText('after', '\nExample:\n  craik snapshot delete parser-before\n')
    .action(async (ids: readonly string[], options: SnapshotDeleteOptions) => {
      requireChoice('snapshot', ids, options)
      using client = await connect(context)
      const { signal } = context
      const call = { signal, ...(options.grant !== undefined && { grantId: options.grant }) }
      await deleteChosen(context, ids, options, {
        noun: 'snapshot',
        nouns: 'snapshots',
        loss: ' for good',
        list: () => client.snapshots.list({ signal }),
        async remove(idOrName) {
          const { name } = await client.snapshots.get(idOrName, { signal })
          const { id } = await client.snapshots.delete(idOrName, call)
          return { id, name }
        },
      })
    })
}
