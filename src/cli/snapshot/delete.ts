/** `craik snapshot delete`: deletes snapshots. Nothing else deletes one. */
import type { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import {
  type Deletable,
  type DeleteOptions,
  deleteSelected,
  deletingCommand,
  requireChoice,
} from '../delete-each.ts'
import { grantOption } from '../grant-option.ts'
import { connect } from '../sandbox/connect-supervisor.ts'

interface SnapshotDeleteOptions extends DeleteOptions {
  readonly grant?: string
}

export function deleteSnapshotCommand(context: CliContext): Command {
  return deletingCommand('snapshot', 'delete snapshots; sandboxes created from them remain')
    .addOption(grantOption())
    .addHelpText('after', '\nExample:\n  craik snapshot delete parser-before\n')
    .action(async (ids: readonly string[], options: SnapshotDeleteOptions) => {
      requireChoice('snapshot', ids, options)
      using client = await connect(context)
      const { signal } = context
      const call = { signal, ...(options.grant !== undefined && { grantId: options.grant }) }
      await deleteSelected(context, ids, options, {
        noun: 'snapshot',
        nouns: 'snapshots',
        loss: ' permanently',
        list: () => client.snapshots.list({ signal }),
        async remove(idOrName) {
          const { id, name } = await find(context, client, idOrName)
          await client.snapshots.delete(id, call)
          return { id, name }
        },
      })
    })
}

/** A snapshot whose record is damaged cannot be shown, but the list contains it, by its id alone. */
async function find({ signal }: CliContext, client: ApiClient, idOrName: string): Promise<Deletable> {
  try {
    return await client.snapshots.get(idOrName, { signal })
  } catch (error) {
    if (!(error instanceof CraikError) || !['tampered', 'store_damaged'].includes(error.code)) throw error
    const found = (await client.snapshots.list({ signal })).find(({ id }) => id === idOrName)
    if (found !== undefined && 'state' in found) return found
    throw error
  }
}
