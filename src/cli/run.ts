/** `craik run`: executes, lists, applies and resumes attempts at a task, with or without a session. */
import { Command, Option } from 'commander'
import type { Json } from '../lib/canonical-json.ts'
import type { Checked, Listed } from '../run/agents/read-agent-records.ts'
import type { Run } from '../run/agents/run-record.ts'
import { openRunDeps, recordDeps } from './agent/open-run-deps.ts'
import { printHiddenRecords, requireOwnRecord } from './agent/own-records.ts'
import { readPrompt } from './agent/read-prompt.ts'
import {
  addLimits,
  addRouting,
  type LimitFlags,
  OWN_AGENT_HELP,
  promptLimits,
  type RoutingFlags,
  routingOf,
} from './agent/run-options.ts'
import { executionRecord, formatRun, formatSummary, RunProgressView, runExitCode } from './agent/run-view.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type Column, formatOption, printable, printRecord, printRows, resolveFormat } from './output.ts'
import { applyCommand } from './run-changes/apply.ts'
import { diffCommand } from './run-changes/diff.ts'
import { pruneRunsCommand } from './run-changes/prune.ts'

export const runNounCommand: NounBuilder = (context) =>
  new Command('run')
    .addCommand(executeCommand(context))
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(diffCommand(context))
    .addCommand(applyCommand(context))
    .addCommand(pruneRunsCommand(context))
    .addCommand(resumeCommand(context))
    .addCommand(cancelCommand(context))
    .addCommand(recoverCommand(context))

function executeCommand(context: CliContext): Command {
  return addLimits(
    addRouting(
      new Command('execute')
        .description('run a task with Craik’s own agent (for Claude Code and others: craik prompt)')
        .argument('<task>', 'what to do, in quotes, or - to read it from stdin'),
    ),
  )
    .addOption(formatOption())
    .addHelpText('after', EXECUTE_HELP)
    .action(async (task: string, flags: LimitFlags & RoutingFlags) => {
      const prompt = await readPrompt(context, task)
      using watcher = new RunProgressView(context, flags)
      const { executeTask } = await import('../run/agents/prompt-session.ts')
      const executed = await executeTask(await openRunDeps(context), prompt, {
        ...promptLimits(flags),
        ...routingOf(flags),
        operator: await context.operator(),
        onProgress: watcher.onProgress,
      })
      const record = { schema: 'craik.provider_backed_run_execution', ...executionRecord(executed) }
      printRecord(context, flags, record, () => formatSummary(executed))
      context.setExitCode(runExitCode(executed.run))
    })
}

const EXECUTE_HELP = `${OWN_AGENT_HELP}
Examples:
  craik run execute "do the tests pass?" --provider-id provider_openai
  craik run execute "run the fixture action"     simulated model, for a test
`

const LIST_HELP = `
Lists runs of Craik's own agent (craik run execute, craik agent prompt). With
--prompts, lists those of craik prompt.

Examples:
  craik run list --status interrupted
  craik run list --prompts
`

const RESUME_HELP = `
Continues a run of Craik's own agent. Type the task again, because Craik stores
only its hash; the run does not repeat commands that succeeded. To continue a
run of craik prompt, use craik prompt --resume.

Example:
  craik run resume run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD "do the tests pass?"
`

function resumeCommand(context: CliContext): Command {
  return addLimits(
    new Command('resume')
      .description('continue an interrupted run; skip commands that already succeeded')
      .argument('<run>', 'id of the run')
      .argument('<task>', 'the same task as before, in quotes, or - to read it from stdin')
      .option(
        '--workspace <folder>',
        'folder where commands start (default: that of the session, or the current folder)',
      ),
  )
    .addOption(formatOption())
    .addHelpText('after', RESUME_HELP)
    .action(async (id: string, task: string, flags: LimitFlags & { readonly workspace?: string }) => {
      const prompt = await readPrompt(context, task)
      using watcher = new RunProgressView(context, flags)
      const { resumeRun } = await import('../run/agents/prompt-session.ts')
      const executed = await resumeRun(await openRunDeps(context), await context.operator(), id, prompt, {
        ...promptLimits(flags),
        workspace: flags.workspace,
        onProgress: watcher.onProgress,
      })
      const record = { schema: 'craik.provider_backed_run_execution', ...executionRecord(executed) }
      printRecord(context, flags, record, () => formatSummary(executed))
      context.setExitCode(runExitCode(executed.run))
    })
}

/** The record's schema contains these too, but loading it would take longer than the command. */
const STATUSES = ['pending', 'running', 'completed', 'blocked', 'failed', 'interrupted']

const COLUMNS: readonly Column<Listed<Run>>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'status', value: ({ record }) => record?.status ?? '–' },
  { title: 'why', value: ({ record }) => record?.stop_reason ?? record?.phase ?? '–', canShorten: true },
  { title: 'mode', value: ({ record }) => record?.runner_mode ?? '–', dropOrder: 2 },
  { title: 'provider', value: ({ record }) => record?.provider_id ?? '–', dropOrder: 3 },
  {
    title: 'turns',
    value: ({ record }) => (record ? `${record.iteration}/${record.max_iterations}` : '–'),
    dropOrder: 4,
  },
  { title: 'session', value: ({ record }) => record?.session_id ?? '–', dropOrder: 1 },
  { title: 'seal', value: ({ status }) => status, dropOrder: 5 },
]

function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list your runs, newest first')
    .addOption(new Option('--status <status>', 'only runs with this status').choices(STATUSES))
    .option('--session <id>', 'only runs of this session')
    .option('--prompts', 'list runs of craik prompt instead')
    .addOption(formatOption())
    .addHelpText('after', LIST_HELP)
    .action(
      async (flags: {
        readonly status?: string
        readonly session?: string
        readonly prompts?: true
        readonly format?: string
      }) => {
        if (flags.prompts) return (await import('./prompt/list.ts')).listPrompts(context, flags)
        const { listOwnRuns } = await import('../run/agents/read-agent-records.ts')
        const filter = {
          ...(flags.status !== undefined && { status: flags.status }),
          ...(flags.session !== undefined && { session_id: flags.session }),
        }
        const list = await listOwnRuns(await recordDeps(context), await context.operator(), filter)
        printRows(context, flags, list.own, COLUMNS, toListJson)
        printHiddenRecords(context, list, 'run')
        if (resolveFormat(context, flags) === 'table')
          await (await import('./prompt/list.ts')).printPrompts(context)
      },
    )
}

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show a run: its status, why it ended, and what it used')
    .argument('<run>', 'id of the run')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik run show run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD\n')
    .action(async (id: string, flags: { readonly format?: string }) => {
      if (await (await import('./prompt/list.ts')).showPrompt(context, flags, id)) return
      const { getRun } = await import('../run/agents/read-agent-records.ts')
      const found = await getRun(await recordDeps(context), id)
      await requireOwnRecord(context, await context.operator(), 'show', 'run', found)
      printRecord(context, flags, runJson(found), () => describeRun(found))
    })
}

function cancelCommand(context: CliContext): Command {
  return new Command('cancel')
    .description('stop a run and write its report (craik handoff)')
    .argument('<run>', 'id of the run')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik run cancel run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD\n')
    .action(async (runId: string, flags: { readonly format?: string }) => {
      const { cancelRun } = await import('../run/agents/tokens.ts')
      const store = await context.store()
      const result = await store.write(cancelRun, { runId, operator: await context.operator() })
      if (result.outcome === 'ended') return printEnded(context, flags, result)
      if (result.outcome === 'refused')
        throw (await import('../run/agents/record-refusal.ts')).recordRefusalError(result)
      const { askToStop } = await import('../run/agents/stop-run.ts')
      const signalled = askToStop(result.owner, context.home.database)
      printRecord(
        context,
        flags,
        { run_id: runId, outcome: 'requested', pid: result.owner.pid, signalled },
        () =>
          `  asked ${runId} to stop${signalled ? ` (process ${result.owner.pid})` : '; it stops at its next step'}\n  show it:  craik run show ${runId}\n`,
      )
    })
}

function recoverCommand(context: CliContext): Command {
  return new Command('recover')
    .description('mark a run whose process is gone as interrupted, and report what it did')
    .argument('<run>', 'id of the run')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik run recover run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD\n')
    .action(async (runId: string, flags: { readonly format?: string }) => {
      const { recoverRun } = await import('../run/agents/tokens.ts')
      const store = await context.store()
      const result = await store.write(recoverRun, { runId, operator: await context.operator() })
      if (result.outcome === 'refused')
        throw (await import('../run/agents/record-refusal.ts')).recordRefusalError(result)
      printEnded(context, flags, result)
    })
}

function printEnded(
  context: CliContext,
  flags: { readonly format?: string },
  { run, handoff }: { readonly run: Run; readonly handoff: { readonly id: string; readonly status: string } },
): void {
  const record = {
    run_id: run.id,
    outcome: 'ended',
    run: formatRun(run),
    handoff: handoff as unknown as Json,
  }
  printRecord(
    context,
    flags,
    record,
    () =>
      `  ${run.id} · ${run.status} (${run.stop_reason})\n  show report:  craik handoff show ${handoff.id}\n  try again:    craik run resume ${run.id} "<the same task>"\n`,
  )
}

/** A run whose record cannot be read contains only its id. */
function toListJson({ id, record, seal, status }: Listed<Run>): Json {
  return { run: record === undefined ? { id } : formatRun(record), receipt_hmac: seal, hmac_status: status }
}

function runJson({ record, seal, status }: Checked<Run>): Json {
  return { run: formatRun(record), receipt_hmac: seal, hmac_status: status }
}

function describeRun({ record: run, status }: Checked<Run>): string {
  const rows: [string, string | null][] = [
    ['why', run.stop_reason],
    ['phase', `${run.phase} · turn ${run.iteration} of ${run.max_iterations}`],
    ['task', run.task_id],
    ['session', run.session_id],
    ['continues', run.resumed_from],
    ['operator', run.operator_subject],
    ['provider', `${run.provider_id} (${run.runner_mode})`],
    ['policy', run.policy_envelope_id],
    ['isolation', run.isolation],
    ['tokens', run.tokens_used === null ? 'unknown' : String(run.tokens_used)],
    ...run.commands.map((one): [string, string] => [
      '$',
      `${one.command_ref}  ${one.status}${one.exit_code === null ? '' : ` · exit ${one.exit_code}`}  ${one.receipt_id}`,
    ]),
    ['handoff', run.ended_at === null ? null : `craik handoff show ${run.handoff_id}`],
    ['receipts', `${run.receipt_ids.length}   craik receipts list --run ${run.id}`],
    ['seal', status],
  ]
  const shown = rows.map(([label, value]) =>
    value === null ? '' : `  ${label.padEnd(10)} ${printable(value)}\n`,
  )
  return `  ${run.id} · ${run.status}\n${shown.join('')}`
}
