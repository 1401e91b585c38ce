/** `craik volume`: lists and deletes volumes, which outlive the sandboxes that use them. */
import { Command } from 'commander'
import { formatDuration } from '../lib/duration.ts'
import type { VolumeBody } from '../operator/api/bodies.ts'
import type { ApiClient } from '../sdk/client.ts'
import { type CommandGrant, withCommandGrant } from './command-grant.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type DeleteOptions, deleteSelected, deletingCommand, requireChoice } from './delete-each.ts'
import { type Column, formatOption, printRows } from './output.ts'
import { formatBytes } from './sandbox/amounts.ts'
import { connect } from './sandbox/connect-supervisor.ts'

export const volumeCommand: NounBuilder = (context) =>
  new Command('volume').addCommand(listCommand(context)).addCommand(deleteCommand(context))

const COLUMNS = (nowMs: number): readonly Column<VolumeBody>[] => [
  { title: 'name', value: ({ name }) => name },
  { title: 'size', value: ({ size_bytes }) => (size_bytes === null ? '?' : formatBytes(size_bytes)) },
  { title: 'used by', value: ({ used_by }) => used_by ?? '–', canShorten: true },
  {
    title: 'age',
    value: ({ created_at_ms }) => formatDuration(Math.max(0, nowMs - created_at_ms)),
    dropOrder: 1,
  },
]

function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list the volumes of this Craik home, their sizes, and the sandbox that uses each')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik volume list --format json\n')
    .action(async (options: { readonly format?: string }) => {
      using client = await connect(context)
      const volumes = await client.volumes.list({ signal: context.signal })
      printRows(context, options, volumes, COLUMNS(context.clock.nowMs()), (volume) => ({ ...volume }))
    })
}

function deleteCommand(context: CliContext): Command {
  return deletingCommand('volume', 'delete volumes and their contents, unless a sandbox uses them')
    .addHelpText('after', '\nExample:\n  craik volume delete ada-toolchains\n')
    .action(async (names: readonly string[], options: DeleteOptions) => {
      requireChoice('volume', names, options)
      using client = await connect(context)
      const { signal } = context
      await deleteSelected(context, names, options, {
        noun: 'volume',
        nouns: 'volumes',
        loss: ', with everything in them',
        list: async () => (await client.volumes.list({ signal })).map(({ name }) => ({ id: name, name })),
        async remove(name) {
          await deleteVolume(context, client, name, 'craik volume delete')
          return { id: name, name }
        },
      })
    })
}

/** Deletes a volume with a grant for it, because the user typed the command. */
export async function deleteVolume(
  context: CliContext,
  client: ApiClient,
  name: string,
  command: string,
): Promise<void> {
  const grant: CommandGrant = {
    capability: 'sandbox.delete',
    operation: 'delete_volume',
    target: `volume/${name}`,
    command,
  }
  await withCommandGrant(context, grant, (grantId) =>
    client.volumes.delete(name, { signal: context.signal, grantId }),
  )
}
