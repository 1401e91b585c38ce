/** `craik prompt`: gives a task to an agent in a sandbox and shows its work. */
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import { HARNESS_NAMES } from '../harnesses/harness.ts'
import { parseDuration } from '../lib/duration.ts'
import { parseReference } from '../lib/ids.ts'
import { PERMISSION_MODES, type PermissionMode } from '../run/prompts/permissions.ts'
import { readPrompt } from './agent/read-prompt.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { formatOption, resolveFormat } from './output.ts'
import type { PromptSandboxOptions } from './prompt/prompt-sandbox.ts'
import { connect } from './sandbox/connect-supervisor.ts'

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
The agent works on a copy of the folder, in a sandbox without a network. The
gateway forwards its model calls with the login of this machine. Craik stops the
sandbox after 30 minutes without activity and deletes it a week after that.
Until then --resume can continue the run.

Examples:
  craik prompt "make the parser test pass" --harness codex --budget 2usd
  craik prompt "RUN: ls" --harness fixture --workspace .
`

export const promptCommand: NounBuilder = (context) =>
  new Command('prompt')
    .argument('<text>', 'what to do, in quotes, or - to read it from stdin')
    .option('--harness <name>', `agent: ${HARNESS_NAMES.join(', ')} (default: the first with a login)`)
    .option('--sandbox <id>', 'existing sandbox, by id or name (default: a new one)')
    .addOption(
      new Option('--backend <kind>', 'backend of a new sandbox (default: process)').choices([
        'process',
        'docker',
      ]),
    )
    .option('--workspace <folder>', 'folder to copy into a new sandbox (default: the current folder)')
    .option('--in-place', 'work on the folder itself instead of a copy')
    .option('--resume <run>', 'continue an earlier prompt, in its sandbox and session')
    .option('--budget <amount>', 'budget for models in this sandbox, such as 2usd')
    .option('--model <name>', 'model, by the name that the agent uses')
    .addOption(
      new Option(
        '--permissions <mode>',
        'what tools may do: allow everything, ask you, only read, deny everything',
      )
        .choices([...PERMISSION_MODES])
        .default('allow'),
    )
    .option('--apply', 'apply its changes to the folder at the end')
    .option('--timeout <duration>', 'stop the prompt after this time', '1h')
    .option('--max-copy <size>', 'refuse to copy more than this', '4g')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action((text: string, options: PromptOptions) => prompt(context, text, options))

async function prompt(context: CliContext, typed: string, options: PromptOptions): Promise<void> {
  const text = await readPrompt(context, typed)
  if (text.trim() === '')
    throw new CraikError('usage', 'the prompt is empty', { hint: 'craik prompt "what to do"' })
  requireOneWorkspace(options)
  const timeoutMs = parseDuration(options.timeout, '--timeout')
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
    )
  if (resume !== undefined && harness !== undefined)
    throw new CraikError(
      'usage',
      '--resume cannot be combined with --harness: a run resumes with its own agent',
    )
  if (isThere && (backend !== undefined || workspace !== undefined || inPlace !== undefined))
    throw new CraikError('usage', '--backend, --workspace and --in-place are for a new sandbox', {
      hint: 'omit them: the sandbox has its own',
    })
}

async function findResumedRun(context: CliContext, id: string | undefined) {
  if (id === undefined) return undefined
  const { getPromptRun } = await import('../run/prompts/runs.ts')
  const deps = { store: await context.store(), home: context.home }
  const run = await getPromptRun(deps, await context.operator(), parseReference(id, '--resume'))
  if (run.agent_session === null)
    throw new CraikError('usage', `run ${run.id} ended before the agent had a session`, {
      hint: `start again in its sandbox:  craik prompt "…" --harness ${run.harness} --sandbox ${run.sandbox_id}`,
    })
  return run
}
