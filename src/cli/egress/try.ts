/**
 * `egress test`: reports the decision about a request, and the deciding rule. It does not connect and writes no
 * receipt.
 */
import { Command } from 'commander'
import { ACCOUNTS_FILE, parseOverrides } from '../../accounts/overrides.ts'
import { tokenHosts } from '../../accounts/token-hosts.ts'
import { CraikError, ERRORS } from '../../errors.ts'
import { evaluateEgress } from '../../gateway/egress/decide-egress.ts'
import {
  formatDestination,
  isNameProblem,
  parseHostAndPort,
} from '../../gateway/egress/egress-destination.ts'
import { parseRulesDocument, refusingRule } from '../../gateway/egress/egress-facts.ts'
import { DEFAULT_EGRESS_LIMITS } from '../../gateway/egress/egress-limits.ts'
import { homeReader, listRules } from '../../gateway/egress/rule-reader.ts'
import { type EgressRequest, HTTPS_PORT } from '../../gateway/egress/rules.ts'
import { parsePlainUrl } from '../../gateway/egress/url-paths.ts'
import { lookUp, systemWeb } from '../../gateway/egress/web.ts'
import { readConfigFile } from '../../providers/config-file.ts'
import { getSandbox } from '../../sandboxes/lifecycle/read-records.ts'
import type { SandboxRecord } from '../../sandboxes/lifecycle/sandbox-record.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { suggestFix } from './advice.ts'

interface Flags {
  readonly sandbox: string
  readonly method: string
  readonly lookup: boolean
  readonly format?: string
}

interface Outcome {
  readonly effect: 'allow' | 'deny'
  readonly rule: string
  readonly ruleId?: string | undefined
  readonly addresses?: readonly string[]
  readonly detail?: string
  readonly problem?: string
  /** Advice after a denial. */
  readonly hint?: string | undefined
}

export function testCommand(context: CliContext): Command {
  return new Command('test')
    .description('test whether a sandbox may reach a URL; writes no receipt')
    .argument('<url>', 'https://HOST…, http://HOST/PATH, or HOST[:PORT]')
    .requiredOption('--sandbox <id>', 'sandbox that would connect, by id or name')
    .option('--method <name>', 'method of a plain HTTP request', 'GET')
    .option('--no-lookup', 'do not resolve the host name')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik egress test https://registry.example.com/ --sandbox parser\n')
    .action(async (url: string, flags: Flags) => {
      const request = parseRequest(url, flags.method.toUpperCase())
      const outcome = await testRequest(context, request, flags)
      const { effect, rule, ruleId, addresses, detail, hint } = outcome
      const to = formatDestination(request)
      printRecord(
        context,
        flags,
        { effect, rule, rule_id: ruleId, to, addresses, detail, hint },
        () =>
          `  ${effect === 'allow' ? '✓' : '✗'} ${printable(to)} would be ${effect === 'allow' ? 'allowed' : 'denied'}` +
          ` by ${rule}${ruleId === undefined ? '' : ` (${ruleId})`}${detail === undefined ? '' : ` · ${printable(detail)}`}\n` +
          `${hint === undefined ? '' : `    ${printable(hint)}\n`}`,
      )
      if (effect === 'deny') context.setExitCode(ERRORS.denied.exit)
    })
}

async function testRequest(context: CliContext, request: EgressRequest, flags: Flags): Promise<Outcome> {
  const sandbox = await getSandbox({ store: await context.store(), home: context.home }, flags.sandbox)
  const outcome = await evaluateRequest(context, request, flags, sandbox)
  if (outcome.effect === 'allow') return outcome
  const { rules } = await listRules(await context.store(), context.home, {
    operator: sandbox.operator,
    sandboxId: sandbox.id,
  })
  return { ...outcome, hint: suggestFix(request, outcome, rules, flags.sandbox) }
}

async function evaluateRequest(
  context: CliContext,
  request: EgressRequest,
  flags: Flags,
  { id, operator, policy_envelope_id, spec }: SandboxRecord,
): Promise<Outcome> {
  const store = await context.store()
  const isTokenHost = tokenHosts(parseOverrides(await readConfigFile(context.home.config, ACCOUNTS_FILE)))
  const caller = { operator, sandboxId: id, policyEnvelopeId: policy_envelope_id, scope: {} }
  const reader = homeReader(context.home)
  const verdict = await store.read((tables) =>
    evaluateEgress(
      { tables, clock: context.clock, reader },
      {
        caller,
        asked: request,
        isTokenEndpoint: isTokenHost(request.host) && spec.credentials !== 'forward',
      },
    ),
  )
  const ruleId = verdict.rule?.id
  if (verdict.effect === 'refuse') {
    const rules = verdict.document === undefined ? [] : parseRulesDocument(verdict.document)
    return { effect: 'deny', rule: refusingRule(verdict.facts, rules)!, ruleId }
  }
  const { rule, grantOutcome } = verdict.decision.evaluation
  if (verdict.effect === 'deny') return { effect: 'deny', rule, ruleId, detail: `grant: ${grantOutcome}` }
  const allowed: Outcome = { effect: 'allow', rule, ruleId }
  return flags.lookup ? checkAddresses(context, request, allowed) : allowed
}

/** Resolves only the names of allowed requests, as the proxy does. */
async function checkAddresses(
  context: CliContext,
  { host, form }: EgressRequest,
  allowed: Outcome,
): Promise<Outcome> {
  const web = systemWeb()
  const found =
    form === 'name' ? await lookUp(web, host, DEFAULT_EGRESS_LIMITS.lookupMs, context.signal) : [host]
  if ('reason' in found) return { ...allowed, detail: found.reason.replaceAll('_', ' ') }
  const problem = found.map((address) => web.notPublic(address)).find((why) => why !== undefined)
  if (problem === undefined) return { ...allowed, addresses: found }
  return {
    ...allowed,
    effect: 'deny',
    rule: 'egress.not_public',
    addresses: found,
    detail: `its address is ${problem}`,
    problem,
  }
}

function parseRequest(text: string, method: string): EgressRequest {
  if (/^http:/i.test(text)) {
    const target = parsePlainUrl(text)
    if (!isNameProblem(target)) return { ...target.destination, protocol: 'http', method, path: target.path }
    throw invalidUrlError(text, target.problem)
  }
  const [, authority] = /^(?:https:\/\/)?([^/?#]*)/i.exec(text)!
  const destination = parseHostAndPort(authority ?? '', HTTPS_PORT)
  if (isNameProblem(destination)) throw invalidUrlError(text, destination.problem)
  return { ...destination, protocol: 'connect' }
}

function invalidUrlError(text: string, problem: string): CraikError {
  return new CraikError('usage', `${JSON.stringify(text.slice(0, 80))} is not a URL or host: ${problem}`, {
    hint: 'use https://HOST/, http://HOST/PATH or HOST[:PORT]',
  })
}
