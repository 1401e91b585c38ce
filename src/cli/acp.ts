/** `craik acp`: an agent for editors. They start this command, and what they talk to is an agent in a sandbox. */
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import { HARNESS_NAMES } from '../harnesses/harness.ts'
import { parseDuration } from '../lib/duration.ts'
import { PERMISSION_MODES, type PermissionMode } from '../run/prompts/permissions.ts'
import type { CliContext, NounBuilder } from './context.ts'
import type { PlaceOptions } from './prompt/place.ts'

interface AcpOptions extends Omit<PlaceOptions, 'workspace'> {
  readonly harness?: string
  readonly budget?: string
  readonly model?: string
  readonly permissions: PermissionMode
  readonly timeout: string
  readonly apply?: true
}

const HELP = `
An editor that speaks the Agent Client Protocol (Zed, JetBrains, Neovim, Emacs, …) is told this command, and starts it itself: it
talks on stdin and stdout. Each session of the editor is an agent in a sandbox with a copy of the editor's folder. How editors are set
up is in docs/acp.md.

Examples:
  craik acp --harness fixture < /dev/null
  craik acp --harness codex --permissions ask --budget 2usd
`

export const acpCommand: NounBuilder = (context) =>
  new Command('acp')
    .option('--harness <name>', `which agent: ${HARNESS_NAMES.join(', ')} (default: the first with a login)`)
    .option('--sandbox <id>', 'in this sandbox, by id or name (default: a new one for each session)')
    .addOption(
      new Option('--backend <kind>', 'what a new sandbox is (default: process)').choices([
        'process',
        'docker',
      ]),
    )
    .option('--in-place', 'let it work on the folder itself, in place of a copy')
    .option('--budget <amount>', 'let models cost at most so much in each new sandbox, such as 2usd')
    .option('--model <name>', 'the model, as the agent calls it')
    .addOption(
      new Option('--permissions <mode>', 'what the agent may do without asking you; ask: in the editor')
        .choices([...PERMISSION_MODES])
        .default('allow'),
    )
    .option('--apply', 'bring what it changed over into the folder after each prompt')
    .option('--timeout <duration>', 'end a prompt after this long', '1h')
    .option('--max-copy <size>', 'refuse to copy more', '4g')
    .addHelpText('after', HELP)
    .action((options: AcpOptions) => acp(context, options))

async function acp(context: CliContext, options: AcpOptions): Promise<void> {
  const { sandbox, backend, inPlace, apply, budget } = options
  if (sandbox !== undefined && (backend !== undefined || inPlace !== undefined || budget !== undefined))
    throw new CraikError('usage', '--backend, --in-place and --budget are for new sandboxes', {
      hint: 'leave them out: the sandbox has its own',
    })
  if (apply && (inPlace || sandbox !== undefined))
    throw new CraikError('usage', '--apply is for copies that are made for a session', {
      hint: 'leave out --apply: there is nothing to bring over',
    })
  if (context.stdin.isTTY)
    throw new CraikError('usage', 'craik acp talks with an editor, and stdin is a terminal', {
      hint: 'name this command in the settings of the editor (docs/acp.md), or ask here:  craik prompt "…"',
    })
  const timeoutMs = parseDuration(options.timeout, '--timeout')
  const [{ serveEditor }, { harnessNamed }, { firstWithLogin, loginsHere }, { parseBudget }] =
    await Promise.all([
      import('./acp/serve.ts'),
      import('../harnesses/all.ts'),
      import('./prompt/logins.ts'),
      import('./prompt/budget.ts'),
    ])
  const budgetNanoUsd = parseBudget(budget)
  const harness =
    options.harness === undefined ? firstWithLogin(await loginsHere(context)) : harnessNamed(options.harness)
  await serveEditor(context, {
    ...{ ...options, harness, timeoutMs, isApplied: apply === true },
    ...{ model: options.model, budgetNanoUsd },
  })
}
