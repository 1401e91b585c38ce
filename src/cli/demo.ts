/** `craik demo persistent-agent`: runs the whole workflow once on a repository of the user, without a network. */
import { Command } from 'commander'
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import type { DemoResult } from '../run/demo/persistent-agent.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { ACT_AS_DEMO, describeResult, describeStep, printReceipts, VERIFY } from './demo/demo-output.ts'
import { formatOption, printRecord, resolveFormat } from './output.ts'

interface Flags {
  readonly repoPath: string
  readonly projectName?: string
  readonly providerId?: readonly string[]
  readonly keepArtifacts?: boolean
  readonly format?: string
}

export const demoCommand: NounBuilder = (context) =>
  new Command('demo').addCommand(persistentAgentCommand(context))

function persistentAgentCommand(context: CliContext): Command {
  return new Command('persistent-agent')
    .description('run one simulated session of Craik’s own agent for each provider, without a network')
    .option('--repo-path <folder>', 'git repository for the demo; the demo only reads it', '.')
    .option('--project-name <name>', 'project name (default: the name of the folder)')
    .option(
      '--provider-id <id>',
      'provider; repeatable (default: openai, anthropic, gemini and local_ollama)',
      (id: string, before: readonly string[] = []) => [...before, id],
    )
    .option('--keep-artifacts', 'keep the sessions, runs and handoffs for inspection')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (flags: Flags) => {
      const { findRepository } = await import('../run/demo/repository.ts')
      const repository = findRepository(flags.repoPath, flags.projectName)
      const { chooseProviders, runPersistentAgentDemo } = await import('../run/demo/persistent-agent.ts')
      // Checks everything that can be refused before it opens the store.
      const providerIds = await chooseProviders(context.home, flags.providerId ?? [])
      const isWatched = resolveFormat(context, flags) === 'table'
      const result = await runPersistentAgentDemo(
        {
          store: await context.store(),
          log: await context.log(),
          home: context.home,
          clock: context.clock,
          environment: context.environment,
          backend: await context.processCommands(),
          credential: refuseSecrets,
          signal: context.signal,
          killSignal: context.kill,
        },
        {
          repository,
          providerIds,
          keepArtifacts: flags.keepArtifacts ?? false,
          onStep: (step) => {
            if (isWatched) context.stdout.write(describeStep(step))
          },
        },
      )
      printRecord(context, flags, resultJson(result), () => describeResult(result))
      context.setExitCode(result.succeeded ? 0 : 1)
    })
}

/** Fixture responses need no login and no key, so a request for a secret here is a bug. */
async function refuseSecrets(name: string): Promise<Buffer> {
  throw new CraikError('internal', `the demo must not read secrets, but something requested ${name}`)
}

function resultJson(result: DemoResult): Json {
  const { repository, availability, executions, artifactsCleaned, verification } = result
  return {
    schema: 'craik.demo.persistent_agent_launch',
    version: '0.1.0',
    mode: 'fixture',
    succeeded: result.succeeded,
    artifacts_cleaned: artifactsCleaned,
    isolation: availability.isolation,
    isolation_provider: availability.version ?? null,
    isolation_advice:
      availability.fix === undefined
        ? null
        : { reason: availability.reason ?? null, command: availability.fix },
    project: { id: repository.name, name: repository.name, repo_path: repository.given },
    provider_ids: executions.map(({ providerId }) => providerId),
    provider_executions: executions.map((one) => ({
      provider_id: one.providerId,
      session_id: one.sessionId,
      launch_status: one.launchStatus,
      status_inspection: { status: one.sessionStatus, hmac_status: one.sessionSeal },
      prompt_exit_behavior: one.exitBehavior,
      task_id: one.taskId,
      run_id: one.runId,
      run_status: one.runStatus,
      stop_reason: one.stopReason,
      handoff_id: one.handoffId,
      handoff_status: one.handoffStatus,
      commands_run: one.commands,
      commands_passed: one.commandsPassed,
      receipt_ids: one.receiptIds,
      provider_result_count: one.providerResultCount,
      next_commands: nextCommands(one, artifactsCleaned),
    })),
    verification: {
      outcome: verification.holds ? 'ok' : 'tampered',
      receipts: verification.receipts,
      decisions: verification.decisions,
      agree: verification.recomputed,
      not_replayable: verification.notReplayable,
      problems: verification.problems,
    },
    commands: [VERIFY, ...executions.map(printReceipts)],
  }
}

function nextCommands(one: DemoResult['executions'][number], cleaned: boolean): readonly string[] {
  if (cleaned) return [printReceipts(one)]
  return [
    printReceipts(one),
    ACT_AS_DEMO,
    `craik agent status ${one.sessionId}`,
    `craik agent audit ${one.sessionId}`,
    `craik handoff show ${one.handoffId}`,
  ]
}

const HELP = `
Shows decisions, a command in a sandbox, a report and receipts. The answers of
the models are canned, and the demo calls no provider. Policy, grants, budgets,
the sandbox and the receipts are real.

The demo acts as operator:persistent-agent-demo and does not change your login.
With --keep-artifacts, the records belong to that operator: to see them, run
craik login --as persistent-agent-demo. Receipts always stay in the log.

Examples:
  craik demo persistent-agent --repo-path .
  craik demo persistent-agent --provider-id openai --keep-artifacts
`
