/** `craik harness install`: installs the harnesses that are missing on this host, and repairs damaged ones. */
import { Command } from 'commander'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { harnessNamesFrom } from './harness-names.ts'
import { installHarnesses } from './install-with-bar.ts'

interface InstallOptions {
  readonly format?: string
}

export function installCommand(context: CliContext): Command {
  return new Command('install')
    .description('install harnesses from npm on this machine, for sandboxes')
    .argument('<names>', 'harnesses, such as claude-code,codex, or all')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (typed: string, options: InstallOptions) => {
      const installed = await installHarnesses(context, await harnessNamesFrom(typed), true)
      const record = installed.map(({ name, version, id, folder, made }) => ({
        name,
        version,
        id,
        folder,
        made,
      }))
      printRecord(context, options, record, () =>
        installed
          .map(
            ({ name, version, made }) =>
              `  ${name} ${version}  ${made ? 'installed' : 'already installed'}\n`,
          )
          .join(''),
      )
    })
}

const HELP = `
Installs exact versions, verified with hashes that Craik ships, and runs no
package scripts. Verifies every byte of a harness that is already installed, and
reinstalls it if it is damaged. craik sandbox create --harness also installs
harnesses.

Example:
  craik harness install kimi
`
