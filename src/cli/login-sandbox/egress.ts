/** Allows a login sandbox to reach the hosts of tools. Each preset gets a rule with its grant and receipt once. */
import { presetCalled } from '../../gateway/egress/egress-presets.ts'
import { listRules } from '../../gateway/egress/rule-reader.ts'
import type { EgressRule } from '../../gateway/egress/rules.ts'
import { addRule } from '../../gateway/egress/tokens.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { CliContext } from '../context.ts'
import { readRuleStates } from '../egress/rule-states.ts'

/** Returns the active rules for this sandbox alone, which are lost with it. */
export async function ownRules(context: CliContext, sandbox: SandboxBody): Promise<readonly EgressRule[]> {
  return (await activeRules(context, sandbox)).filter(({ sandbox_id }) => sandbox_id === sandbox.id)
}

async function activeRules(context: CliContext, sandbox: SandboxBody): Promise<readonly EgressRule[]> {
  const [store, operator] = [await context.store(), await context.operator()]
  const { rules } = await listRules(store, context.home, { operator, sandboxId: sandbox.id })
  const states = await readRuleStates(context, rules)
  return states.flatMap(({ rule, state }) => (state === 'holds' ? [rule] : []))
}

export async function allowPresets(
  context: CliContext,
  sandbox: SandboxBody,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return
  const wanted = names.map((name) => ({ name, ...presetCalled(name) }))
  const [store, operator] = [await context.store(), await context.operator()]
  const there = new Set((await activeRules(context, sandbox)).map(({ preset }) => preset))
  for (const { name, hosts, ports } of wanted) {
    if (there.has(name)) continue
    await store.write(addRule, {
      hosts,
      ports,
      methods: null,
      path: null,
      preset: name,
      operator,
      sandboxId: sandbox.id,
      approvedBy: operator,
    })
  }
}
