/** `egress list`: lists the rules and their states. */
import { Command } from 'commander'
import { listRules } from '../../gateway/egress/rule-reader.ts'
import type { EgressRule } from '../../gateway/egress/rules.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printNote, printRows } from '../output.ts'
import { formatTarget, ruleJson } from './describe.ts'
import { type RuleState, readRuleStates } from './rule-states.ts'
import { readSandboxNames } from './sandbox-names.ts'
import { scopeOf } from './scope.ts'

export function listEgressCommand(context: CliContext): Command {
  return new Command('list')
    .description('list egress rules')
    .option('--sandbox <id>', 'only rules for this sandbox, including those for all sandboxes')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik egress list --sandbox parser\n')
    .action(async (flags: { readonly sandbox?: string; readonly format?: string }) => {
      const store = await context.store()
      const nowMs = context.clock.nowMs()
      const scope = flags.sandbox === undefined ? undefined : await scopeOf(context, flags)
      const filter = scope === undefined ? {} : { operator: scope.operator, sandboxId: scope.sandboxId! }
      const { rules, damaged } = await listRules(store, context.home, filter)
      const rows = await readRuleStates(context, rules)
      const names = await readSandboxNames(context)
      const nameOf = (id: string | null) => (id === null ? 'all' : (names.get(id) ?? id))
      const columns: readonly Column<RuleState>[] = [
        { title: 'rule', value: ({ rule }: RuleState) => rule.id },
        { title: 'sandbox', value: ({ rule }: RuleState) => nameOf(rule.sandbox_id), canShorten: true },
        { title: 'effect', value: ({ rule }: RuleState) => rule.effect },
        { title: 'to', value: ({ rule }: RuleState) => formatTarget(rule), canShorten: true },
        { title: 'expires', value: ({ rule }: RuleState) => expiry(rule, nowMs), dropOrder: 1 },
        { title: 'state', value: ({ state }: RuleState) => (state === 'holds' ? 'active' : state) },
      ]
      printRows(context, flags, rows, columns, ({ rule, state }): Json => ({ ...ruleJson(rule), state }))
      if (damaged.length > 0)
        printNote(
          context,
          `  ${damaged.length} ${damaged.length === 1 ? 'rule was' : 'rules were'} changed outside Craik, so nothing in that scope is allowed: ${damaged.join(', ')}\n`,
        )
    })
}

function expiry({ expires_at_ms: at }: EgressRule, nowMs: number): string {
  if (at === null) return '–'
  return at > nowMs ? `in ${formatDuration(at - nowMs)}` : `${formatDuration(nowMs - at)} ago`
}
