/** `craik harness install`: fetches the agents' command lines that are not on this machine, and mends those that are. */
import { Command } from 'commander'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { installHarnesses } from './install-with-bar.ts'
import { harnessesOf } from './typed.ts'

interface InstallOptions {
  readonly format?: string
}

export function installCommand(context: CliContext): Command {
  return new Command('install')
    .description('fetch agents’ command lines from npm, for sandboxes to be shown')
    .argument('<names>', 'such as claude-code,codex, or all')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (typed: string, options: InstallOptions) => {
      const installed = await installHarnesses(context, await harnessesOf(typed), true)
      const record = installed.map(({ name, version, id, folder, made }) => ({
        ...{ name, version, id, folder, made },
      }))
      printRecord(context, options, record, () =>
        installed
          .map(
            ({ name, version, made }) => `  ${name} ${version}  ${made ? 'installed' : 'is there already'}\n`,
          )
          .join(''),
      )
    })
}

const HELP = `
Exact versions, by hashes that Craik brings along; no script of a package runs. What is there already is looked at to
the last byte, and made anew when it is damaged. craik sandbox create --harness does the same by itself.

Example:
  craik harness install kimi
`
