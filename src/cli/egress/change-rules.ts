/** `egress allow` and `deny`: each change writes a rule, its grant and their receipts in one transaction. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { isLocalName } from '../../gateway/egress/blocked-hosts.ts'
import { PRESETS, presetCalled } from '../../gateway/egress/egress-presets.ts'
import { listRules } from '../../gateway/egress/rule-reader.ts'
import { parseTyped, parseTypedHost, type TypedRule } from '../../gateway/egress/rules.ts'
import { addRule, denyHost, type RuleChange, removeRule } from '../../gateway/egress/tokens.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { parseDuration } from '../../lib/duration.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printNote, printRows, printText, resolveFormat } from '../output.ts'
import { formatTarget, ruleJson } from './describe.ts'
import { addScope, type RuleScope, type ScopeFlags, scopeOf } from './scope.ts'

interface AllowFlags extends ScopeFlags {
  readonly preset?: readonly string[]
  readonly method?: readonly string[]
  readonly expires?: string
  readonly format?: string
}

export function allowCommand(context: CliContext): Command {
  const command = new Command('allow')
    .description('allow a sandbox to reach a host')
    .argument('[host...]', 'HOST[:PORT][/PATH]; *.HOST for its subdomains (default port: 443)')
    .option('--preset <name...>', `hosts of a tool: ${Object.keys(PRESETS).join(', ')}`)
    .option('--method <name...>', 'only these HTTP methods; for plain HTTP only')
    .option('--expires <duration>', 'lifetime of the rule (default: 366 days, the maximum)')
  return addScope(command)
    .addOption(formatOption())
    .addHelpText('after', ALLOW_HELP)
    .action(async (hosts: readonly string[], flags: AllowFlags) => {
      const wanted: (TypedRule & { readonly preset: string | null })[] = [
        ...hosts.map((host) => ({ ...parseTyped(host, flags.method), preset: null })),
        ...(flags.preset ?? []).map((name) => ({
          ...presetCalled(name),
          methods: null,
          path: null,
          preset: name,
        })),
      ]
      if (wanted.length === 0)
        throw new CraikError('usage', 'no host to allow: name a host or use --preset', {
          hint: 'allow one host:  craik egress allow registry.example.com --sandbox ID   or all hosts of a preset:  craik egress allow --preset npm --sandbox ID',
        })
      const scope = await scopeOf(context, flags)
      const store = await context.store()
      const approvedBy = await context.operator()
      const expiresAtMs =
        flags.expires === undefined
          ? undefined
          : context.clock.nowMs() + parseDuration(flags.expires, '--expires')
      const changes: RuleChange[] = []
      for (const rule of wanted)
        changes.push(
          await store.write(addRule, {
            ...rule,
            operator: scope.operator,
            sandboxId: scope.sandboxId,
            approvedBy,
            ...(expiresAtMs !== undefined && { expiresAtMs }),
          }),
        )
      print(context, flags, changes, (rule) => `allowed  ${formatTarget(rule)} for ${scope.shown}`)
      for (const host of new Set(wanted.flatMap((rule) => rule.hosts).filter(isLocalName)))
        printNote(
          context,
          `  ${printable(host)} is a local network name; sandboxes cannot reach it at a local address; check it:  craik egress test ${printable(host)} --sandbox ID\n`,
        )
      await printOverruled(context, scope, changes)
    })
}

/** Warns about blocks that stay in effect: a rule for one sandbox does not override a block for all sandboxes. */
async function printOverruled(
  context: CliContext,
  { operator, sandboxId }: RuleScope,
  changes: readonly RuleChange[],
): Promise<void> {
  const { rules } = await listRules(await context.store(), context.home, {
    operator,
    ...(sandboxId !== null && { sandboxId }),
  })
  const allowed = new Set(changes.flatMap(({ rule }) => rule.hosts))
  for (const { id, effect, hosts } of rules) {
    if (effect === 'deny' && hosts.some((host) => allowed.has(host)))
      printNote(
        context,
        `  ${printable(hosts.join(', '))} is still blocked by ${id}; remove the block:  craik egress deny ${id}\n`,
      )
  }
}

interface DenyFlags extends ScopeFlags {
  readonly format?: string
}

export function denyCommand(context: CliContext): Command {
  const command = new Command('deny')
    .description('remove a rule by its id, or add a rule that blocks a host')
    .argument('<host-or-rule...>', 'HOST[:PORT] or rule id')
  return addScope(command)
    .addOption(formatOption())
    .addHelpText('after', DENY_HELP)
    .action(async (provided: readonly string[], flags: DenyFlags) => {
      const store = await context.store()
      const approvedBy = await context.operator()
      for (const text of provided) {
        if (/^egr_/.test(text)) {
          const change = await store.write(removeRule, { id: text, operator: approvedBy })
          print(context, flags, [change], (rule) => `removed  ${formatTarget(rule)}`)
          continue
        }
        const { host, port } = hostAndPort(text)
        const { operator, sandboxId, shown } = await scopeOf(context, flags)
        const { removed, added } = await store.write(denyHost, {
          operator,
          sandboxId,
          host,
          port,
          approvedBy,
        })
        if (resolveFormat(context, flags) !== 'table') {
          context.stdout.write(
            `${JSON.stringify({ removed: removed.map(ruleJson), added: added && ruleJson(added) })}\n`,
          )
          continue
        }
        for (const rule of removed)
          printText(context, `  removed  ${printable(formatTarget(rule))}\n  rule     ${rule.id}\n`)
        if (added !== undefined)
          printText(
            context,
            `  blocked  ${printable(formatTarget(added))} for ${printable(shown)}\n  rule     ${added.id}\n`,
          )
      }
    })
}

function hostAndPort(text: string): { readonly host: string; readonly port: number | undefined } {
  const [, name, port] = /^(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?$/.exec(text) ?? []
  if (name === undefined)
    throw new CraikError(
      'usage',
      `${JSON.stringify(text.slice(0, 80))} is neither HOST[:PORT] nor a rule id`,
      {
        hint: 'block a host:  craik egress deny registry.example.com --sandbox ID   or list the rules:  craik egress list',
      },
    )
  return { host: parseTypedHost(name), port: port === undefined ? undefined : Number(port) }
}

function print(
  context: CliContext,
  flags: { readonly format?: string },
  changes: readonly RuleChange[],
  describe: (rule: RuleChange['rule']) => string,
) {
  if (resolveFormat(context, flags) === 'table') {
    for (const { rule, receipt } of changes)
      printText(context, `  ${printable(describe(rule))}\n  rule     ${rule.id}\n  receipt  ${receipt.id}\n`)
    return
  }
  const toJson = ({ rule, receipt }: RuleChange): Json => ({ ...ruleJson(rule), receipt_id: receipt.id })
  printRows(context, flags, changes, [], toJson)
}

const ALLOW_HELP = `
One of --sandbox and --all-sandboxes is required. TLS hides the method and the
path: a rule with either works only for plain HTTP; name its port, such as :80.
*.example.com matches all its subdomains, not example.com itself.

Examples:
  craik egress allow registry.example.com --sandbox parser
  craik egress allow --preset npm --preset github --sandbox parser --expires 8h
  craik egress allow store.example.com:80/bucket --method GET --sandbox parser
`

const DENY_HELP = `
A rule id needs no other option; a host needs --sandbox or --all-sandboxes.
Craik removes the rules that allow only this host. If there are none, or if a
wildcard, a preset or a rule for all sandboxes still allows the host, Craik
blocks it until you allow the host itself again. Connections that a removed rule
allowed are closed within seconds.

Examples:
  craik egress deny registry.example.com --sandbox parser
  craik egress deny egr_01JCQ3V8Z0W4N5T6R7Y8K9M2PD
`
