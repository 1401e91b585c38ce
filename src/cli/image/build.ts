/** `craik image build`: builds the image, or reports that it exists. */
import { Command, Option } from 'commander'
import type { CliContext } from '../context.ts'
import { harnessNamesFrom } from '../harness/harness-names.ts'
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
    .description('build the container image if it does not exist')
    .option('--apt <packages>', 'add these Debian packages, such as jq,ripgrep')
    .option(
      '--harness <names>',
      'add these harnesses (programs of agents), such as claude-code,codex, or all',
    )
    .option('--fresh', 'rebuild the image with today’s packages')
    .addOption(
      new Option(
        '--from <source>',
        'source of Debian: a registry, or Debian’s archive through mmdebstrap (default: registry, or mmdebstrap if the Debian image cannot be pulled)',
      ).choices(['registry', 'mmdebstrap']),
    )
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: BuildOptions) => {
      const packages = await packagesOf(options.apt)
      const harnesses = await harnessNamesFrom(options.harness)
      const image = await makeImage(context, {
        packages,
        harnesses,
        fresh: options.fresh === true,
        way: options.from,
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
  return `  ${image.name}  ${image.made ? 'built' : 'already exists'}\n  use it:  craik sandbox create --backend docker${use}\n`
}

const HELP = `
The image is named after its contents, so Craik builds it only when they change.
Every image includes npm. npm and the harnesses come from npm’s registry, at the
versions that were tested with this build of Craik. Each harness is a layer of
its own, which other images reuse. Craik pushes nothing to a registry.

Examples:
  craik image build --apt jq,ripgrep
  craik image build --harness claude-code,codex
`
