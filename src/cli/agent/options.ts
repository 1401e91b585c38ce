/** Flags that prompting, executing and resuming have in common. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { PromptOptions } from '../../run/agents/prompt.ts'

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
      new Option('--max-iterations <n>', 'at most this many model calls (default: 5)').argParser(positive),
    )
    .addOption(
      new Option(
        '--token-budget <n>',
        'stop before a call for which fewer tokens, in and out, are left',
      ).argParser(positive),
    )
    .addOption(
      new Option('--wall-seconds <n>', 'stop after this many seconds (default: 600)').argParser(positive),
    )
    .addOption(
      new Option(
        '--command-seconds <n>',
        'end a command after this many seconds (default: 30, at most 3600)',
      ).argParser(positive),
    )
    .option('--allow-fixture-action', 'grant one use of the fixture’s harmless command (default)', true)
    .option('--no-allow-fixture-action', 'grant no command; what was granted otherwise still counts')
}

export function limitsOf(flags: LimitFlags): PromptOptions {
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

/** Which provider, under which policy, where. */
export function addRouting(command: Command): Command {
  return command
    .option('--provider-id <id>', 'which model provider (default: provider_fixture_local)')
    .option('--model-id <id>', 'which of its models (default: the provider’s own default)')
    .option('--policy-envelope-id <id>', 'under this envelope (default: one of its own)')
    .addOption(
      new Option('--profile <name>', 'the profile of its own envelope (default: automation)').choices([
        'automation',
        'strict',
      ]),
    )
    .option('--workspace <folder>', 'where commands start; they see it read-only', '.')
    .addOption(
      new Option('--isolation <kind>', 'of commands; none is this machine itself, and has to be named')
        .choices(['process', 'none'])
        .default('process'),
    )
    .option('--fixture', 'the provider’s record and limits, but deterministic answers; nothing is dialled')
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
  throw new InvalidArgumentError('it takes a whole number from 1 on.')
}
