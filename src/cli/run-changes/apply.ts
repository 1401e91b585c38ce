/** `craik run apply`: applies what a run changed in its copy to the workspace on this host. */
import { Command, Option } from 'commander'
import type { CliContext } from '../context.ts'
import { formatOption } from '../output.ts'
import { type ApplyFlags, applyRun, printApplied } from './apply-run.ts'

export function applyCommand(context: CliContext): Command {
  return new Command('apply')
    .description('apply a run’s changes to the original folder')
    .argument('<run>', 'id of the run')
    .option('--dry-run', 'show what would change; write nothing')
    .option('--skip-conflicts', 'skip files that also changed in the original folder, and apply the rest')
    .option(
      '--include-unsafe',
      'also apply files that git, a shell, an editor or an agent on this machine would run or trust: .envrc, .vscode, … (default: held back)',
    )
    .addOption(new Option('--with-settings').hideHelp())
    .addOption(
      new Option(
        '--profile <profile>',
        'policy profile that decides whether this is allowed (craik policy show)',
      )
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
A file that also changed in your folder since the copy is a conflict: Craik then
writes nothing and exits with 4, unless you use --skip-conflicts. Craik never
writes through a link, outside the folder, or into .git. It skips changes that
are already applied, so you can repeat an interrupted apply.

Examples:
  craik run apply run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD --dry-run
  craik run apply run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD
`
