/** The flags that the commands for prompting, executing and resuming share. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { PromptOptions } from '../../run/agents/prompt-session.ts'

export const OWN_AGENT_HELP = `
Craik's own agent is a small agent loop inside Craik: the model can only run
commands that you registered (craik command) and granted. To give a task to
Claude Code, Codex or another agent, use craik prompt.
`

export interface LimitFlags {
  readonly maxIterations?: number
  readonly tokenBudget?: number
  readonly wallSeconds?: number
  readonly commandSeconds?: number
  readonly allowFixtureAction: boolean
  readonly format?: string
}

export function addLimits(command: Command): Command {
  return command
    .addOption(
      new Option('--max-iterations <n>', 'maximum number of model calls (default: 5)').argParser(positive),
    )
    .addOption(
      new Option(
        '--token-budget <n>',
        'limit of input and output tokens; stops before a call exceeds it',
      ).argParser(positive),
    )
    .addOption(
      new Option('--wall-seconds <n>', 'stop after this many seconds (default: 600)').argParser(positive),
    )
    .addOption(
      new Option(
        '--command-seconds <n>',
        'stop a command after this many seconds (default: 30, at most 3600)',
      ).argParser(positive),
    )
    .option('--allow-fixture-action', 'let the run use the test command (uname -s) once', true)
    .option('--no-allow-fixture-action', 'do not grant the test command; other grants still apply')
}

export function promptLimits(flags: LimitFlags): PromptOptions {
  return {
    maxIterations: flags.maxIterations,
    tokenBudget: flags.tokenBudget,
    wallMs: milliseconds(flags.wallSeconds),
    commandMs: milliseconds(flags.commandSeconds),
    allowFixtureAction: flags.allowFixtureAction,
  }
}

const milliseconds = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : seconds * 1000

/** Adds the flags that select the provider, the policy and the folder. */
export function addRouting(command: Command): Command {
  return command
    .option(
      '--provider-id <id>',
      'model provider (default: provider_fixture_local, which simulates a model offline)',
    )
    .option('--model-id <id>', 'model (default: the default of the provider)')
    .option(
      '--policy-envelope-id <id>',
      'stored policy envelope (a signed policy, see craik policy show) to use (default: a new one)',
    )
    .addOption(
      new Option(
        '--profile <name>',
        'policy profile of the new envelope; it decides what is allowed, see craik policy show (default: automation)',
      ).choices(['automation', 'strict']),
    )
    .option('--workspace <folder>', 'folder where commands start; a sandboxed command can only read it', '.')
    .addOption(
      new Option('--isolation <kind>', 'isolation of commands; none runs them directly on the host')
        .choices(['process', 'none'])
        .default('process'),
    )
    .option(
      '--fixture',
      'answer with canned text instead of calling the provider; its token budgets and quotas still apply',
    )
}

export interface RoutingFlags {
  readonly providerId?: string
  readonly modelId?: string
  readonly policyEnvelopeId?: string
  readonly profile?: 'automation' | 'strict'
  readonly workspace: string
  readonly isolation: 'process' | 'none'
  readonly fixture?: boolean
}

export function routingOf(flags: RoutingFlags) {
  const { providerId, modelId, profile, workspace, isolation, fixture } = flags
  return { providerId, modelId, envelopeId: flags.policyEnvelopeId, profile, workspace, isolation, fixture }
}

function positive(text: string): number {
  if (/^[1-9]\d{0,11}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('expected a whole number of 1 or more')
}
