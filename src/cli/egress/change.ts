/** `egress allow` and `deny`: each change is a rule, its grant and their receipts, in one transaction. */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { isLocalName } from '../../gateway/egress/never-reached.ts'
import { PRESETS, presetCalled } from '../../gateway/egress/presets.ts'
import { listRules } from '../../gateway/egress/rule-reader.ts'
import { parseTyped, parseTypedHost, type TypedRule } from '../../gateway/egress/rules.ts'
import { addRule, denyHost, type RuleChange, removeRule } from '../../gateway/egress/tokens.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { parseDuration } from '../../lib/duration.ts'
import type { CliContext } from '../context.ts'
import { chosenFormat, formatOption, printable, printRows } from '../output.ts'
import { ruleJson, whereTo } from './describe.ts'
import { addScope, type RuleScope, type ScopeFlags, scopeOf } from './scope.ts'

interface AllowFlags extends ScopeFlags {
  readonly preset?: readonly string[]
  readonly method?: readonly string[]
  readonly expires?: string
  readonly format?: string
}

export function allowCommand(context: CliContext): Command {
  const command = new Command('allow')
    .description('let what runs in a sandbox reach a host')
    .argument('[host...]', 'HOST[:PORT][/PATH]; *.HOST for all below it; port 443 unless said')
    .option('--preset <name...>', `the hosts of a tool: ${Object.keys(PRESETS).join(', ')}`)
    .option('--method <name...>', 'only these methods; of plain HTTP, which shows them')
    .option('--expires <duration>', 'for how long (default: as long as a grant may last, 366 days)')
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
        throw new CraikError('usage', 'nothing to allow: give a host or --preset', {
          hint: 'craik egress allow registry.example.com --sandbox ID   craik egress allow --preset npm --sandbox ID',
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
      print(context, flags, changes, `allowed for ${scope.shown}`)
      for (const host of new Set(wanted.flatMap((rule) => rule.hosts).filter(isLocalName)))
        context.stderr.write(
          `  ${printable(host)} is a name of a local network; if its address is one too, it is not reached:  craik egress test ${printable(host)} --sandbox ID\n`,
        )
      await tellOverruled(context, scope, changes)
    })
}

/** A block for all sandboxes is not lifted by leave for one. */
async function tellOverruled(
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
      context.stderr.write(
        `  ${printable(hosts.join(', '))} stays blocked by ${id}; lift it:  craik egress deny ${id}\n`,
      )
  }
}

interface DenyFlags extends ScopeFlags {
  readonly format?: string
}

export function denyCommand(context: CliContext): Command {
  const command = new Command('deny')
    .description('take a rule back by its id, or see to it that a host is not reached')
    .argument('<host-or-rule...>', 'HOST[:PORT] or the id of a rule')
  return addScope(command)
    .addOption(formatOption())
    .addHelpText('after', DENY_HELP)
    .action(async (given: readonly string[], flags: DenyFlags) => {
      const store = await context.store()
      const approvedBy = await context.operator()
      for (const text of given) {
        if (/^egr_/.test(text)) {
          const change = await store.write(removeRule, { id: text, operator: approvedBy })
          print(context, flags, [change], 'removed')
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
        if (chosenFormat(context, flags) !== 'table') {
          context.stdout.write(
            `${JSON.stringify({ removed: removed.map(ruleJson), added: added && ruleJson(added) })}\n`,
          )
          continue
        }
        for (const rule of removed)
          context.stdout.write(`  removed  ${printable(whereTo(rule))} · ${rule.id}\n`)
        if (added !== undefined)
          context.stdout.write(
            `  blocked  ${printable(whereTo(added))} for ${printable(shown)} · ${added.id}\n`,
          )
      }
    })
}

function hostAndPort(text: string): { readonly host: string; readonly port: number | undefined } {
  const [, name, port] = /^(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?$/.exec(text) ?? []
  if (name === undefined)
    throw new CraikError('usage', `${JSON.stringify(text.slice(0, 80))} is neither HOST[:PORT] nor a rule`)
  return { host: parseTypedHost(name), port: port === undefined ? undefined : Number(port) }
}

function print(
  context: CliContext,
  flags: { readonly format?: string },
  changes: readonly RuleChange[],
  done: string,
) {
  if (chosenFormat(context, flags) === 'table') {
    for (const { rule, receipt } of changes)
      context.stdout.write(
        `  ${printable(whereTo(rule))}\n    ${printable(done)} · ${rule.id} · receipt ${receipt.id}\n`,
      )
    return
  }
  const toJson = ({ rule, receipt }: RuleChange): Json => ({ ...ruleJson(rule), receipt_id: receipt.id })
  printRows(context, flags, changes, [], toJson)
}

const ALLOW_HELP = `
Inside TLS neither method nor path can be seen; they are of plain HTTP only, and its port has to be said.
*.example.com is every name below example.com, and not example.com itself.

Examples:
  craik egress allow registry.example.com --sandbox parser
  craik egress allow --preset npm --preset github --sandbox parser --expires 8h
  craik egress allow store.example.com:80/bucket --method GET --sandbox parser
`

const DENY_HELP = `
What allows just this host is removed. If nothing did, or a wildcard, a preset or a rule for all sandboxes would still allow it,
it is blocked until the host itself is allowed again.
What is open under a rule that goes is closed within seconds.

Examples:
  craik egress deny registry.example.com --sandbox parser
  craik egress deny egr_01JCQ3V8Z0W4N5T6R7Y8K9M2PD
`
