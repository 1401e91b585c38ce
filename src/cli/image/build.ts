/** `craik image build`: makes the image, or says that it is there. */
import { Command, Option } from 'commander'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { makeImage, packagesOf } from './make-image.ts'

interface BuildOptions {
  readonly apt?: string
  readonly fresh?: boolean
  readonly from?: 'registry' | 'mmdebstrap'
  readonly format?: string
}

export function buildCommand(context: CliContext): Command {
  return new Command('build')
    .description('make the image that containers are started from, unless it is there')
    .option('--apt <packages>', 'with these Debian packages too, such as jq,ripgrep')
    .option('--fresh', 'make it anew, with the packages of today')
    .addOption(
      new Option('--from <source>', 'a registry’s Debian, or Debian’s own archive by mmdebstrap').choices([
        'registry',
        'mmdebstrap',
      ]),
    )
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: BuildOptions) => {
      const packages = await packagesOf(options.apt)
      const image = await makeImage(context, { packages, fresh: options.fresh === true, way: options.from })
      const record = { id: image.id, name: image.name, made: image.made, packages: [...packages] }
      printRecord(context, options, record, () => describe(image, packages))
    })
}

function describe(image: { name: string; made: boolean }, packages: readonly string[]): string {
  const use = packages.length === 0 ? '' : ` --image ${image.name}`
  return `  ${image.name}  ${image.made ? 'made' : 'is there already'}\n  use it:  craik sandbox create --backend docker${use}\n`
}

const HELP = `
The image is named after what goes into it, so it is made only when that changes. Where no registry gives the
Debian image to begin with, mmdebstrap makes the same from Debian’s archive.

Example:
  craik image build --apt jq,ripgrep
`
