/** `craik provider failover`: shows which providers are fallbacks for which, and which ones are in cooldown. */
import { Command, Option } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import { FAILURE_KINDS, type FailureKind } from '../../providers/adapters/adapter.ts'
import type { BreakerStatus } from '../../providers/breaker/breakers.ts'
import type { FailoverPolicy } from '../../providers/failover/failover-policy.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord, table } from '../output.ts'

export function failoverCommand(context: CliContext): Command {
  return new Command('failover')
    .description('show, test and reset fallback providers, which replace one that fails')
    .addCommand(showCommand(context))
    .addCommand(testCommand(context))
    .addCommand(resetCommand(context))
    .addHelpText('after', '\nExample:\n  craik provider failover show\n')
}

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show the rules for fallback providers, and the state of each provider')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik provider failover show\n')
    .action(async (options: { readonly format?: string }) => {
      const { policy, ids } = await load(context)
      const { breakerStates } = await import('../../providers/breaker/breakers.ts')
      const known = await breakerStates(await context.store(), context.clock.nowMs())
      const states = ids.map((id) => known.find(({ providerId }) => providerId === id) ?? closedBreaker(id))
      printRecord(
        context,
        options,
        { policy: policyJson(policy), providers: states.map(stateJson) },
        (columns) =>
          [describePolicy(policy, columns), describeStates(states, context.clock.nowMs(), columns)].join(
            '\n',
          ),
      )
    })
}

interface TestOptions {
  readonly from: string
  readonly failure: FailureKind
  readonly contentPassedOn?: boolean
  readonly tried?: string[]
  readonly policyEnvelopeId?: string
  readonly format?: string
}

function testCommand(context: CliContext): Command {
  return new Command('test')
    .description('show what Craik would do after a failure; calls no provider')
    .requiredOption('--from <provider>', 'provider that fails')
    .addOption(
      new Option('--failure <kind>', 'kind of failure').choices([...FAILURE_KINDS]).makeOptionMandatory(),
    )
    .option('--content-passed-on', 'part of the answer already reached the caller')
    .option('--tried <provider...>', 'providers that were tried before --from')
    .option('--policy-envelope-id <id>', 'policy envelope of the call (its signed policy)')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nExample:\n  craik provider failover test --from provider_openai --failure rate_limited\n',
    )
    .action(async (options: TestOptions) => {
      const { policy, records } = await load(context)
      const [{ decideFailover }, { findProvider }] = await Promise.all([
        import('../../providers/failover/decide-failover.ts'),
        import('../../providers/load-providers.ts'),
      ])
      const before = (options.tried ?? []).map((id) => findProvider(records, id).id)
      const from = findProvider(records, options.from).id
      const { failure, contentPassedOn = false, policyEnvelopeId } = options
      const decision =
        policy === undefined
          ? ({ status: 'denied', rule: 'failover.no_policy', reason: NO_POLICY } as const)
          : decideFailover(policy, {
              from,
              failure,
              contentPassedOn,
              tried: [...before, from],
              ...(policyEnvelopeId !== undefined && { policyEnvelopeId }),
            })
      const to = 'to' in decision ? decision.to : undefined
      const record = {
        from_provider_id: from,
        failure,
        content_passed_on: contentPassedOn,
        status: decision.status,
        rule: decision.rule,
        to_provider_id: to ?? null,
        reason: decision.reason,
      }
      printRecord(context, options, record, () => {
        const lead = decision.status === 'allowed' ? `✓ ${from} → ${to}` : `✗ ${from}: ${decision.status}`
        return `  ${lead}  on ${failure}\n    ${printable(decision.reason)} (${decision.rule})\n`
      })
    })
}

function resetCommand(context: CliContext): Command {
  return new Command('reset')
    .description('end the cooldown of a provider, so that the next call goes to it again')
    .argument('<provider>', 'id of the provider')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik provider failover reset provider_openai\n')
    .action(async (id: string, options: { readonly format?: string }) => {
      const [{ breakerReset }, { findProvider, loadProviders }] = await Promise.all([
        import('../../providers/breaker/tokens.ts'),
        import('../../providers/load-providers.ts'),
      ])
      const providerId = findProvider(await loadProviders(context.home), id).id
      const input = { providerId, operator: await context.operator() }
      const { receipt, lastFailure, openUntilMs } = await (await context.store()).write(breakerReset, input)
      const record = {
        provider_id: providerId,
        state: 'closed',
        last_failure: lastFailure,
        until: openUntilMs === null ? null : new Date(openUntilMs).toISOString(),
        receipt_id: receipt.id,
      }
      printRecord(context, options, record, () => {
        const was = lastFailure === null ? '' : `; it was in cooldown after ${lastFailure}`
        return `  ${providerId} is closed${openUntilMs === null ? '' : was}\n  receipt ${receipt.id}\n`
      })
    })
}

const NO_POLICY = 'no failover policy exists, so each call stays with its provider'

async function load(context: CliContext) {
  const [{ loadProviders }, { loadFailoverPolicy }] = await Promise.all([
    import('../../providers/load-providers.ts'),
    import('../../providers/failover/failover-policy.ts'),
  ])
  const records = await loadProviders(context.home)
  const ids = records.map(({ id }) => id)
  return { records, ids, policy: await loadFailoverPolicy(context.home, ids) }
}

function closedBreaker(providerId: string): BreakerStatus {
  return { providerId, phase: 'closed', failures: 0, lastFailure: null, openUntilMs: null, probing: false }
}

function policyJson(policy: FailoverPolicy | undefined): Json {
  return policy === undefined ? null : (JSON.parse(JSON.stringify(policy)) as Json)
}

function stateJson({ providerId, phase, failures, lastFailure, openUntilMs, probing }: BreakerStatus): Json {
  return {
    provider_id: providerId,
    state: phase,
    failures,
    last_failure: lastFailure,
    until: openUntilMs === null ? null : new Date(openUntilMs).toISOString(),
    probing,
  }
}

function describePolicy(policy: FailoverPolicy | undefined, columns: number): string {
  if (policy === undefined)
    return `  ${NO_POLICY}\n    write one: config/failover.json (docs/how-to/set-up-a-fallback.md)\n`
  const { rules, denied_provider_ids: denied, stop_reasons: stops, policy_envelope_id: envelope } = policy
  const rows =
    rules.length === 0
      ? '  no rules: each call stays with its provider\n'
      : table(
          [
            { title: 'from', value: (rule) => rule.from_provider_id },
            { title: 'to', value: (rule) => rule.to_provider_id },
            { title: 'on', value: (rule) => rule.on.join(', '), canShorten: true },
            { title: 'reason', value: (rule) => rule.reason, canShorten: true, dropOrder: 1 },
          ],
          rules,
          columns,
        )
  const facts = [
    denied.length > 0 && `  never to     ${denied.join(', ')}\n`,
    stops.length > 0 && `  never after  ${stops.join(', ')}\n`,
    envelope !== undefined && `  only under   ${envelope}\n`,
  ].filter((line) => line !== false)
  return `  ${policy.id}\n${rows}${facts.join('')}`
}

function describeStates(states: readonly BreakerStatus[], nowMs: number, columns: number): string {
  const rested = states.find(({ phase }) => phase === 'open')
  const next =
    rested === undefined ? '' : `  to try it now:  craik provider failover reset ${rested.providerId}\n`
  return `${stateTable(states, nowMs, columns)}${next}`
}

function stateTable(states: readonly BreakerStatus[], nowMs: number, columns: number): string {
  return table(
    [
      { title: 'provider', value: ({ providerId }) => providerId },
      { title: 'state', value: describePhase },
      { title: 'until', value: ({ openUntilMs }) => describeUntil(openUntilMs, nowMs), canShorten: true },
      { title: 'last failure', value: ({ lastFailure }) => lastFailure ?? '–', dropOrder: 1 },
    ],
    states,
    columns,
  )
}

function describePhase({ phase, failures, probing }: BreakerStatus): string {
  if (phase === 'closed') return failures === 0 ? 'closed' : `closed (${failures} failed)`
  if (phase === 'open') return 'open'
  return probing ? 'half-open, being probed' : 'half-open'
}

function describeUntil(openUntilMs: number | null, nowMs: number): string {
  if (openUntilMs === null || openUntilMs <= nowMs) return '–'
  return `in ${Math.ceil((openUntilMs - nowMs) / 1000)} s`
}
