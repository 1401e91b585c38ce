/** `craik sandbox delete`: stops sandboxes, and deletes them with everything in them. */
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
import { connect } from './connect-supervisor.ts'

export function deleteSandboxCommand(context: CliContext): Command {
  return deletingCommand('sandbox', 'stop and delete sandboxes, with their workspace copies')
    .addHelpText(
      'after',
      '\nSnapshots, volumes and your own folders are not deleted.\n\nExample:\n  craik sandbox delete parser\n',
    )
    .action(async (ids: readonly string[], options: DeleteOptions) => {
      requireChoice('sandbox', ids, options)
      using client = await connect(context)
      const { signal } = context
      await deleteSelected(context, ids, options, {
        noun: 'sandbox',
        nouns: 'sandboxes',
        loss: ', with everything in them',
        list: () => client.sandboxes.list({ signal }),
        async remove(idOrName) {
          const { id, name } = await find(context, client, idOrName)
          await client.sandboxes.delete(id, { signal })
          return { id, name }
        },
      })
    })
}

/** A sandbox whose record is damaged cannot be shown, but the list contains it. */
async function find({ signal }: CliContext, client: ApiClient, idOrName: string): Promise<Deletable> {
  try {
    return await client.sandboxes.get(idOrName, { signal })
  } catch (error) {
    if (!(error instanceof CraikError) || !['tampered', 'store_damaged'].includes(error.code)) throw error
    const listed = await client.sandboxes.list({ signal })
    const found = listed.find(({ id, name }) => id === idOrName || name === idOrName)
    if (found?.state === 'damaged') return found
    throw error
  }
}
