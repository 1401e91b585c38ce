/** `craik prompt`: gives a task to an agent in a sandbox and shows its work. */
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import { parseReference } from '../lib/ids.ts'
import { PERMISSION_MODES, type PermissionMode } from '../run/prompts/permissions.ts'
import { readPrompt } from './agent/read-prompt.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { HARNESS_HELP } from './harness/harness-names.ts'
import { formatOption, resolveFormat } from './output.ts'
import type { PromptSandboxOptions } from './prompt/prompt-sandbox.ts'
import { backendOption } from './sandbox/backend-option.ts'
import { connect } from './sandbox/connect-supervisor.ts'
import { parseTimeout } from './timeout-option.ts'

interface PromptOptions extends PromptSandboxOptions {
  readonly harness?: string
  readonly resume?: string
  readonly budget?: string
  readonly model?: string
  readonly permissions: PermissionMode
  readonly timeout: string
  readonly apply?: true
  readonly format?: string
}

const HELP = `
The agent works on a copy of your folder. Show its changes with craik run diff,
and apply them to the folder with craik run apply.

The sandbox has no network. It reaches hosts that you allow (craik egress allow)
only through Craik's proxy, and models through Craik's gateway, which adds your
login. Craik stops the sandbox after 30 minutes without activity and deletes it
a week after that. Until then --resume can continue the run.

--budget limits only calls that have a price. Calls of a subscription (Claude
Code, Codex, Kimi Code) have none and are not blocked. Limit their tokens, or
with a ChatGPT login the number of requests:
  craik budget set --sandbox ID --tokens 500000
  craik quota set --provider provider_openai --requests-per-minute 30

Examples:
  craik prompt "make the parser test pass"
  craik prompt "make the parser test pass" --harness codex --budget 2usd
  craik prompt "RUN: ls" --harness fixture     simulated agent, for a test
`

export const promptCommand: NounBuilder = (context) =>
  new Command('prompt')
    .argument('<text>', 'what to do, in quotes, or - to read it from stdin')
    .option('--harness <name>', HARNESS_HELP)
    .option('--sandbox <id>', 'use this existing sandbox, by id or name (default: a new one)')
    .addOption(backendOption('backend of a new sandbox'))
    .option('--workspace <folder>', 'folder to copy into a new sandbox (default: the current folder)')
    .option('--in-place', 'work on the folder itself instead of a copy')
    .option('--resume <run>', 'continue this earlier run, in its sandbox and conversation')
    .option(
      '--budget <amount>',
      'maximum cost of the model calls in this sandbox, such as 2usd; replaces the sandbox’s earlier limit',
    )
    .option('--model <name>', 'model, by the name that the agent uses')
    .addOption(
      new Option(
        '--permissions <mode>',
        'what the agent’s tools may do: everything (allow), what you confirm (ask), only read, or nothing (deny)',
      )
        .choices([...PERMISSION_MODES])
        .default('allow'),
    )
    .option('--apply', 'apply the agent’s changes to your folder at the end')
    .option('--timeout <duration>', 'stop the agent if it takes longer than this', '1h')
    .option('--max-copy <size>', 'maximum size of the folder to copy', '4g')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action((text: string, options: PromptOptions) => prompt(context, text, options))

async function prompt(context: CliContext, typed: string, options: PromptOptions): Promise<void> {
  const text = await readPrompt(context, typed)
  if (text.trim() === '')
    throw new CraikError('usage', 'the prompt is empty', { hint: 'craik prompt "what to do"' })
  requireOneWorkspace(options)
  const timeoutMs = parseTimeout(options.timeout)
  const { limitSandbox, parseBudget } = await import('./prompt/prompt-budget.ts')
  const budgetNanoUsd = parseBudget(options.budget)
  const [
    { firstWithLogin, readHarnessLogins, NO_LOGINS, requireHarnessLogin },
    { harnessNamed },
    { openPromptSandbox },
    { runPrompt },
    show,
  ] = await Promise.all([
    import('./prompt/harness-logins.ts'),
    import('../harnesses/all.ts'),
    import('./prompt/prompt-sandbox.ts'),
    import('./prompt/run-prompt.ts'),
    import('./prompt/prompt-view.ts'),
  ])
  const resumes = await findResumedRun(context, options.resume)
  const chosen = resumes?.harness ?? options.harness
  const named = chosen === undefined ? undefined : harnessNamed(chosen)
  const logins = named?.logins.length === 0 ? NO_LOGINS : await readHarnessLogins(context)
  const harness = named ?? firstWithLogin(logins)
  const login = await requireHarnessLogin(harness, logins)
  using client = await connect(context)
  const { sandbox, made, workspace, copied } = await openPromptSandbox(
    context,
    client,
    harness,
    options,
    resumes,
  )
  if (budgetNanoUsd !== undefined) await limitSandbox(context, sandbox.id, budgetNanoUsd)
  const view = show.viewFor(context, resolveFormat(context, options) === 'table')
  const {
    run,
    usage,
    kept: changeSet,
  } = await runPrompt(
    context,
    client,
    {
      harness,
      login,
      text,
      timeoutMs,
      resumes,
      sandbox,
      workspace,
      model: options.model,
      permissions: options.permissions,
      madeSandbox: made,
    },
    view.event,
    (begun) => view.printBegin(begun, sandbox, copied),
    (failed) => view.printEnd(failed.run, failed.usage, sandbox, failed.kept, false),
  )
  const isForPerson = resolveFormat(context, options) === 'table'
  await view.printEnd(run, usage, sandbox, changeSet, options.apply === true)
  if (options.apply && changeSet !== undefined && run.status === 'completed') {
    const { applyRun, printApplied } = await import('./run-changes/apply-run.ts')
    const flags = { format: isForPerson ? 'table' : 'jsonl' }
    await printApplied(context, flags, await applyRun(context, run.id, flags, 'craik prompt --apply'))
  }
  if (run.status === 'cancelled') context.setExitCode(130)
  else if (run.stop_reason !== 'end_turn') context.setExitCode(1)
}

function requireOneWorkspace({ sandbox, resume, backend, workspace, inPlace, harness }: PromptOptions): void {
  const isThere = sandbox !== undefined || resume !== undefined
  if (sandbox !== undefined && resume !== undefined)
    throw new CraikError(
      'usage',
      '--resume cannot be combined with --sandbox: a run resumes in its own sandbox',
      { hint: 'omit --sandbox' },
    )
  if (resume !== undefined && harness !== undefined)
    throw new CraikError(
      'usage',
      '--resume cannot be combined with --harness: a run resumes with its own agent',
      { hint: 'omit --harness' },
    )
  if (isThere && (backend !== undefined || workspace !== undefined || inPlace !== undefined))
    throw new CraikError(
      'usage',
      `${sandbox === undefined ? '--resume' : '--sandbox'} cannot be combined with --backend, --workspace or --in-place, which are for a new sandbox`,
      { hint: 'omit those options: the existing sandbox keeps its backend and workspace' },
    )
}

async function findResumedRun(context: CliContext, id: string | undefined) {
  if (id === undefined) return undefined
  const { getPromptRun } = await import('../run/prompts/runs.ts')
  const deps = { store: await context.store(), home: context.home }
  const run = await getPromptRun(deps, await context.operator(), parseReference(id, '--resume'))
  if (run.agent_session === null)
    throw new CraikError('usage', `cannot resume run ${run.id}: it ended before the agent had a session`, {
      hint: `start again in the sandbox of the run:  craik prompt "…" --harness ${run.harness} --sandbox ${run.sandbox_id}`,
    })
  return run
}
