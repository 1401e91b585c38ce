/** The flags that the commands for prompting, executing and resuming share. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { PromptOptions } from '../../run/agents/prompt-session.ts'

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
    .option('--allow-fixture-action', 'grant one use of the fixture’s harmless command', true)
    .option('--no-allow-fixture-action', 'grant no command; other grants still apply')
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
    .option('--provider-id <id>', 'model provider (default: provider_fixture_local)')
    .option('--model-id <id>', 'model (default: the default of the provider)')
    .option('--policy-envelope-id <id>', 'policy envelope (default: a new one)')
    .addOption(
      new Option('--profile <name>', 'profile of the new envelope (default: automation)').choices([
        'automation',
        'strict',
      ]),
    )
    .option('--workspace <folder>', 'folder where commands start; read-only for them', '.')
    .addOption(
      new Option('--isolation <kind>', 'isolation of commands; none runs them directly on the host')
        .choices(['process', 'none'])
        .default('process'),
    )
    .option('--fixture', 'simulate the provider: its record and limits, but canned responses and no network')
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
