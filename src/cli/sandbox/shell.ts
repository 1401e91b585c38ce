/** `craik sandbox shell`: a terminal inside, in the terminal here. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { parseReference } from '../../lib/ids.ts'
import type { JobRequestBody } from '../../operator/api/requests.ts'
import type { CliContext } from '../context.ts'
import { connect } from './connect.ts'
import { parseEnvironment } from './environment.ts'
import { jobIdOf } from './exec.ts'
import { parseFolder } from './inside-folder.ts'
import { exitCodeOf, explanationOf } from './outcome.ts'
import { requireTerminal } from './raw-terminal.ts'
import { LOGIN_SHELL, TerminalSession, termOf } from './terminal-session.ts'

interface ShellOptions {
  readonly attach?: string
  readonly cwd?: string
  readonly env?: readonly string[]
  readonly grant?: string
}

export function shellCommand(context: CliContext): Command {
  return new Command('shell')
    .description('open a terminal inside')
    .argument('<id>', 'id or name')
    .argument('[argv...]', 'a program other than the shell, after --')
    .usage('[options] <id> [-- <program> [arguments...]]')
    .option('--attach <job>', 'go back to a terminal that was left')
    .option('--cwd <folder>', 'where to begin; relative to the workspace')
    .option('--env <name=value...>', 'variables for it')
    .option('--grant <id>', 'the grant to use; without it a usable one is looked up')
    .addHelpText('after', HELP)
    .action(async (id: string, argv: readonly string[], options: ShellOptions) => {
      if (options.attach !== undefined && argv.length > 0)
        throw new CraikError('usage', '--attach goes to what runs already, and starts nothing')
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
        ...{ cols, rows, term: termOf(context) },
      })
      const end = await session.run(options.attach === undefined ? spec : undefined)
      if (end === undefined) {
        context.stderr.write(`  left; it goes on:  craik sandbox shell ${id} --attach ${jobId}\n`)
        return
      }
      const explanation = explanationOf(end.result, id, { cwd: options.cwd, program: argv[0] })
      if (explanation !== undefined) context.stderr.write(`craik: ${explanation}\n`)
      context.setExitCode(exitCodeOf(end.result))
    })
}

const HELP = `
Ctrl-] then d leaves it running; --attach goes back to it. Exits with the shell's own code, or with 4 when another
client attached: the last one to come has the input.
What a program inside writes reaches this terminal as it is, as with ssh.

Examples:
  craik sandbox shell parser
  craik sandbox shell parser -- vim README.md
`
