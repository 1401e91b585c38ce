/** Determines which egress rules are active: a rule ends when it expires, or when its grant is revoked. */
import type { EgressRule } from '../../gateway/egress/rules.ts'
import type { CliContext } from '../context.ts'

export interface RuleState {
  readonly rule: EgressRule
  readonly state: 'holds' | 'expired' | 'revoked'
}

export async function readRuleStates(
  context: CliContext,
  rules: readonly EgressRule[],
): Promise<readonly RuleState[]> {
  const nowMs = context.clock.nowMs()
  const revoked = await readRevokedGrants(context, rules)
  return rules.map((rule) => {
    const isOver = rule.expires_at_ms !== null && nowMs >= rule.expires_at_ms
    const isRevoked = rule.grant_id !== null && revoked.has(rule.grant_id)
    return { rule, state: isRevoked ? 'revoked' : isOver ? 'expired' : 'holds' }
  })
}

async function readRevokedGrants(
  context: CliContext,
  rules: readonly EgressRule[],
): Promise<ReadonlySet<string>> {
  const store = await context.store()
  return store.read(async ({ grants }) => {
    const rows = await Promise.all(
      rules.map(({ grant_id }) => (grant_id === null ? undefined : grants.get(grant_id))),
    )
    return new Set(rows.flatMap((row) => (row === undefined || row.revokedAtMs === null ? [] : [row.id])))
  })
}
