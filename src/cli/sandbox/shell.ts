/** `craik sandbox shell`: opens a terminal in a sandbox, in the user's terminal. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { parseReference } from '../../lib/ids.ts'
import type { JobRequestBody } from '../../operator/api/requests.ts'
import type { CliContext } from '../context.ts'
import { grantOption } from '../grant-option.ts'
import { printNote } from '../output.ts'
import { connect } from './connect-supervisor.ts'
import { parseEnvironment } from './environment-option.ts'
import { jobIdOf } from './exec.ts'
import { explanationOf, jobExitCode } from './job-exit-code.ts'
import { requireTerminal } from './raw-terminal.ts'
import { parseFolder } from './sandbox-path.ts'
import { LOGIN_SHELL, TerminalSession, termOf } from './terminal-session.ts'

interface ShellOptions {
  readonly attach?: string
  readonly cwd?: string
  readonly env?: readonly string[]
  readonly grant?: string
}

export function sandboxShellCommand(context: CliContext): Command {
  return new Command('shell')
    .description('open a terminal in a sandbox')
    .argument('<id>', 'id or name')
    .argument('[program...]', 'program to run instead of the shell, after --')
    .usage('[options] <id> [-- <program> [arguments...]]')
    .option('--attach <job>', 'reattach to this detached terminal, by the id that detaching printed')
    .option('--cwd <folder>', 'working directory, relative to the workspace')
    .option('--env <name=value...>', 'environment variables of the shell')
    .addOption(grantOption())
    .addHelpText('after', HELP)
    .action(async (id: string, argv: readonly string[], options: ShellOptions) => {
      if (options.attach !== undefined && argv.length > 0)
        throw new CraikError('usage', '--attach cannot be combined with a program', {
          hint: 'omit the program: the attached terminal runs its own',
        })
      const jobId = jobIdOf(context, options.attach)
      const env = parseEnvironment(options.env)
      const cwd = options.cwd === undefined ? undefined : parseFolder(options.cwd, '--cwd')
      const grant = options.grant === undefined ? undefined : parseReference<string>(options.grant, '--grant')
      requireTerminal(context, `craik sandbox exec ${id} -- ${argv[0] ?? 'ls'}`)
      using client = await connect(context)
      const sandbox = await client.sandboxes.get(id, { signal: context.signal })
      const session = new TerminalSession(context, client, sandbox.id, jobId, grant)
      const spec = (cols: number, rows: number): JobRequestBody => ({
        kind: 'terminal',
        argv: argv.length === 0 ? [...LOGIN_SHELL] : [...argv],
        ...(cwd !== undefined && { cwd }),
        ...(Object.keys(env).length > 0 && { env }),
        cols,
        rows,
        term: termOf(context),
      })
      const end = await session.run(options.attach === undefined ? spec : undefined)
      if (end === undefined) {
        printNote(context, `  detached; reattach:  craik sandbox shell ${id} --attach ${jobId}\n`)
        return
      }
      const explanation = explanationOf(end.result, id, { cwd: options.cwd, program: argv[0] })
      if (explanation !== undefined) printNote(context, `craik: ${explanation}\n`)
      context.setExitCode(jobExitCode(end.result))
    })
}

const HELP = `
Ctrl-] then d detaches from the terminal and keeps it running; --attach
reattaches. The exit code is that of the shell, or 4 if another client took over
the input. Output of the sandbox reaches this terminal unfiltered, as with ssh.

Examples:
  craik sandbox shell parser
  craik sandbox shell parser -- vim README.md
`
