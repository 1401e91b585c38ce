/** `craik image prune`: frees the space of images that no sandbox or snapshot needs. */
import { Command } from 'commander'
import type { CraikImage } from '../../sandboxes/backends/docker/image/images.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { readImageUse } from './in-use.ts'
import { imageJson } from './list.ts'
import { engineOf } from './open-engine.ts'

interface PruneOptions {
  readonly all?: boolean
  readonly format?: string
}

export function pruneImagesCommand(context: CliContext): Command {
  return new Command('prune')
    .description('remove images of other builds of Craik that no sandbox or snapshot needs')
    .option('--all', 'include images of this build; the next container builds a new one')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik image prune\n')
    .action(async (options: PruneOptions) => {
      const { listImages, pruneImages } = await import('../../sandboxes/backends/docker/image/images.ts')
      const { harnessStore } = await import('../../harnesses/packages/harness-store.ts')
      const engine = await engineOf(context)
      const use = await readImageUse(context, await listImages(engine, context.home.root))
      const { removed, kept: stored } = await pruneImages(engine, context.home.root, new Set(use.keys()), {
        all: options.all === true,
        signal: context.signal,
        packageStore: harnessStore,
      })
      const record = {
        removed: removed.map((image) => imageJson(image, use)),
        kept: stored.map(({ image, why }) => ({ id: image.id, name: image.name ?? null, why })),
      }
      printRecord(context, options, record, () => {
        const lines = [
          ...removed.map((image) => `  removed  ${nameOf(image)}  ${formatBytes(image.bytes)}`),
          ...stored.map(({ image, why }) => `  kept     ${nameOf(image)}  ${why}`),
        ]
        return lines.length === 0 ? '  none\n' : `${lines.join('\n')}\n`
      })
    })
}

function nameOf({ name, id }: CraikImage): string {
  return name ?? id.slice(0, 19)
}
