/** `craik run apply`: brings what a run changed in its copy over into the workspace on this machine. */
import { Command, Option } from 'commander'
import type { CliContext } from '../context.ts'
import { formatOption } from '../output.ts'
import { type ApplyFlags, applyRun, printApplied } from './bring-over.ts'

export function applyCommand(context: CliContext): Command {
  return new Command('apply')
    .description('bring what a run changed over into the folder that it got a copy of')
    .argument('<run>')
    .option('--dry-run', 'only tell what would be done')
    .option('--skip-conflicts', 'leave what was changed here meanwhile as it is, and bring the rest over')
    .option(
      '--with-settings',
      'also files that programs here run or trust unasked: .envrc, .vscode, .claude, …',
    )
    .addOption(
      new Option('--profile <profile>', 'the policy that decides')
        .choices(['strict', 'automation', 'custom'])
        .default('automation'),
    )
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (runId: string, flags: ApplyFlags) => {
      const applied = await applyRun(context, runId, flags)
      await printApplied(context, flags, applied)
    })
}

const HELP = `
A file that is not what it was when the copy was made is a conflict: nothing at all is written then, unless
--skip-conflicts. Nothing is written through a link, outside the folder, or into .git; settings of editors, agents
and package managers only --with-settings. What was brought over before is left as it is, so an apply that was broken
off can be done again. Exits with 4 when something conflicts.

Examples:
  craik run apply run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD --dry-run
  craik run apply run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD
`
