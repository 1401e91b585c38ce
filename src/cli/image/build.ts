/** `craik image build`: makes the image, or says that it is there. */
import { Command, Option } from 'commander'
import type { CliContext } from '../context.ts'
import { harnessesOf } from '../harness/typed.ts'
import { formatOption, printRecord } from '../output.ts'
import { makeImage, packagesOf } from './make-image.ts'

interface BuildOptions {
  readonly apt?: string
  readonly harness?: string
  readonly fresh?: boolean
  readonly from?: 'registry' | 'mmdebstrap'
  readonly format?: string
}

export function buildCommand(context: CliContext): Command {
  return new Command('build')
    .description('make the image that containers are started from, unless it is there')
    .option('--apt <packages>', 'with these Debian packages too, such as jq,ripgrep')
    .option('--harness <names>', 'with these agents’ command lines too, such as claude-code,codex, or all')
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
      const harnesses = await harnessesOf(options.harness)
      const image = await makeImage(context, {
        ...{ packages, harnesses },
        ...{ fresh: options.fresh === true, way: options.from },
      })
      const { id, name, made } = image
      const record = { id, name, made, packages: [...packages], harnesses: [...harnesses] }
      printRecord(context, options, record, () => describe(image, packages, harnesses))
    })
}

function describe(
  image: { name: string; made: boolean },
  packages: readonly string[],
  harnesses: readonly string[],
): string {
  const shown = harnesses.length === 0 ? '' : ` --harness ${harnesses.join(',')}`
  const use = packages.length === 0 ? shown : ` --image ${image.name}`
  return `  ${image.name}  ${image.made ? 'made' : 'is there already'}\n  use it:  craik sandbox create --backend docker${use}\n`
}

const HELP = `
The image is named after what goes into it, so it is made only when that changes. Where no registry gives the
Debian image to begin with, mmdebstrap makes the same from Debian’s archive.

npm is in every image. Agents’ command lines come from npm’s registry as it does, at the versions that this build of Craik has tried: each is a layer of its own,
below Craik’s. Nothing is ever pushed anywhere.

Examples:
  craik image build --apt jq,ripgrep
  craik image build --harness claude-code,codex
`
