/** `craik acp`: an agent for editors. The editor starts this command and talks to an agent in a sandbox. */
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import { HARNESS_NAMES } from '../harnesses/harness.ts'
import { parseDuration } from '../lib/duration.ts'
import { PERMISSION_MODES, type PermissionMode } from '../run/prompts/permissions.ts'
import type { CliContext, NounBuilder } from './context.ts'
import type { PromptSandboxOptions } from './prompt/prompt-sandbox.ts'

interface AcpOptions extends Omit<PromptSandboxOptions, 'workspace'> {
  readonly harness?: string
  readonly budget?: string
  readonly model?: string
  readonly permissions: PermissionMode
  readonly timeout: string
  readonly apply?: true
}

const HELP = `
An editor that speaks the Agent Client Protocol (Zed, JetBrains, Neovim, Emacs,
…) starts this command and talks to it on stdin and stdout. Each session is an
agent in a sandbox with a copy of the editor's folder. To set up an editor, see
docs/how-to/use-agents-in-your-editor.md.

Examples:
  craik acp --harness fixture < /dev/null
  craik acp --harness codex --permissions ask --budget 2usd
`

export const acpCommand: NounBuilder = (context) =>
  new Command('acp')
    .option('--harness <name>', `agent: ${HARNESS_NAMES.join(', ')} (default: the first with a login)`)
    .option('--sandbox <id>', 'existing sandbox, by id or name (default: a new one for each session)')
    .addOption(
      new Option('--backend <kind>', 'backend of a new sandbox (default: process)').choices([
        'process',
        'docker',
      ]),
    )
    .option('--in-place', 'work on the folder itself instead of a copy')
    .option('--budget <amount>', 'budget for models in each new sandbox, such as 2usd')
    .option('--model <name>', 'model, by the name that the agent uses')
    .addOption(
      new Option(
        '--permissions <mode>',
        'what tools may do: allow everything, ask in the editor, only read, deny everything',
      )
        .choices([...PERMISSION_MODES])
        .default('allow'),
    )
    .option('--apply', 'apply its changes to the folder after each prompt')
    .option('--timeout <duration>', 'stop a prompt after this time', '1h')
    .option('--max-copy <size>', 'refuse to copy more than this', '4g')
    .addHelpText('after', HELP)
    .action((options: AcpOptions) => acp(context, options))

async function acp(context: CliContext, options: AcpOptions): Promise<void> {
  const { sandbox, backend, inPlace, apply, budget } = options
  if (sandbox !== undefined && (backend !== undefined || inPlace !== undefined || budget !== undefined))
    throw new CraikError('usage', '--backend, --in-place and --budget are for new sandboxes', {
      hint: 'omit them: the sandbox has its own',
    })
  if (apply && (inPlace || sandbox !== undefined))
    throw new CraikError('usage', '--apply needs a new copy: omit --in-place and --sandbox, or --apply', {
      hint: 'in the settings of the editor, write:  craik acp --apply',
    })
  if (context.stdin.isTTY)
    throw new CraikError('usage', 'craik acp expects an editor on stdin, but stdin is a terminal', {
      hint: 'add this command to the settings of the editor (docs/how-to/use-agents-in-your-editor.md), or prompt here:  craik prompt "…"',
    })
  const timeoutMs = parseDuration(options.timeout, '--timeout')
  const [{ serveEditor }, { harnessNamed }, { firstWithLogin, readHarnessLogins }, { parseBudget }] =
    await Promise.all([
      import('./acp/serve.ts'),
      import('../harnesses/all.ts'),
      import('./prompt/harness-logins.ts'),
      import('./prompt/prompt-budget.ts'),
    ])
  const budgetNanoUsd = parseBudget(budget)
  const harness =
    options.harness === undefined
      ? firstWithLogin(await readHarnessLogins(context))
      : harnessNamed(options.harness)
  await serveEditor(context, {
    ...options,
    harness,
    timeoutMs,
    isApplied: apply === true,
    model: options.model,
    budgetNanoUsd,
  })
}
