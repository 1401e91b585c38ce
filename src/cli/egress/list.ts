/** `egress list`: lists the rules and their states. */
import { Command } from 'commander'
import { listRules } from '../../gateway/egress/rule-reader.ts'
import type { EgressRule } from '../../gateway/egress/rules.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printNote, printRows } from '../output.ts'
import { formatTarget, ruleJson } from './describe.ts'
import { readSandboxNames } from './sandbox-names.ts'
import { scopeOf } from './scope.ts'

interface Row {
  readonly rule: EgressRule
  readonly state: 'holds' | 'expired' | 'revoked'
}

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
      const revoked = await store.read(async ({ grants }) => {
        const rows = await Promise.all(
          rules.map(({ grant_id }) => (grant_id === null ? undefined : grants.get(grant_id))),
        )
        return new Set(
          rows.filter((row) => row !== undefined && row.revokedAtMs !== null).map((row) => row!.id as string),
        )
      })
      const rows = rules.map((rule): Row => {
        const isOver = rule.expires_at_ms !== null && nowMs >= rule.expires_at_ms
        const isRevoked = rule.grant_id !== null && revoked.has(rule.grant_id)
        return { rule, state: isRevoked ? 'revoked' : isOver ? 'expired' : 'holds' }
      })
      const names = await readSandboxNames(context)
      const nameOf = (id: string | null) => (id === null ? 'all' : (names.get(id) ?? id))
      const columns: readonly Column<Row>[] = [
        { title: 'rule', value: ({ rule }: Row) => rule.id },
        { title: 'sandbox', value: ({ rule }: Row) => nameOf(rule.sandbox_id), canShorten: true },
        { title: 'effect', value: ({ rule }: Row) => rule.effect },
        { title: 'to', value: ({ rule }: Row) => formatTarget(rule), canShorten: true },
        { title: 'expires', value: ({ rule }: Row) => expiry(rule, nowMs), dropOrder: 1 },
        { title: 'state', value: ({ state }: Row) => (state === 'holds' ? 'active' : state) },
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
