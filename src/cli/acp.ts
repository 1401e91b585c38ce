/** `craik acp`: an agent for editors. The editor starts this command and talks to an agent in a sandbox. */
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import { PERMISSION_MODES, type PermissionMode } from '../run/prompts/permissions.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { HARNESS_HELP } from './harness/harness-names.ts'
import type { PromptSandboxOptions } from './prompt/prompt-sandbox.ts'
import { backendOption } from './sandbox/backend-option.ts'
import { parseTimeout } from './timeout-option.ts'

interface AcpOptions extends Omit<PromptSandboxOptions, 'workspace'> {
  readonly harness?: string
  readonly budget?: string
  readonly model?: string
  readonly permissions: PermissionMode
  readonly timeout: string
  readonly apply?: true
}

const HELP = `
Do not type this command: put it in the settings of an editor that speaks the
Agent Client Protocol (Zed, JetBrains, Neovim, Emacs, …). The editor starts it
and talks to it on stdin and stdout. Each session is an agent in a sandbox with
a copy of the editor's folder. How to set up an editor:
docs/how-to/use-agents-in-your-editor.md

Examples:
  craik acp --harness claude-code
  craik acp --harness codex --permissions ask --budget 2usd
`

export const acpCommand: NounBuilder = (context) =>
  new Command('acp')
    .option('--harness <name>', HARNESS_HELP)
    .option(
      '--sandbox <id>',
      'use this existing sandbox, by id or name (default: a new one for each session)',
    )
    .addOption(backendOption('backend of a new sandbox'))
    .option('--in-place', 'work on the folder itself instead of a copy')
    .option(
      '--budget <amount>',
      'maximum cost of the model calls in each new sandbox, such as 2usd; no effect on a subscription',
    )
    .option('--model <name>', 'model, by the name that the agent uses')
    .addOption(
      new Option(
        '--permissions <mode>',
        'what the agent’s tools may do: everything (allow), what you confirm in the editor (ask), only read, or nothing (deny)',
      )
        .choices([...PERMISSION_MODES])
        .default('allow'),
    )
    .option('--apply', 'apply the agent’s changes to your folder after each prompt')
    .option('--timeout <duration>', 'stop the agent if a prompt takes longer than this', '1h')
    .option('--max-copy <size>', 'maximum size of the folder to copy', '4g')
    .addHelpText('after', HELP)
    .action((options: AcpOptions) => acp(context, options))

async function acp(context: CliContext, options: AcpOptions): Promise<void> {
  const { sandbox, backend, inPlace, apply, budget } = options
  if (sandbox !== undefined && (backend !== undefined || inPlace !== undefined || budget !== undefined))
    throw new CraikError(
      'usage',
      '--sandbox cannot be combined with --backend, --in-place or --budget, which are for a new sandbox',
      { hint: 'omit those options, or omit --sandbox to create a sandbox' },
    )
  if (apply && (inPlace || sandbox !== undefined))
    throw new CraikError('usage', '--apply cannot be combined with --in-place or --sandbox', {
      hint: 'in the settings of the editor, write:  craik acp --apply',
    })
  if (context.stdin.isTTY)
    throw new CraikError('usage', 'craik acp expects an editor on stdin, but stdin is a terminal', {
      hint: 'add this command to the settings of the editor (docs/how-to/use-agents-in-your-editor.md), or prompt here:  craik prompt "…"',
    })
  const timeoutMs = parseTimeout(options.timeout)
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
