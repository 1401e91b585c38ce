/** Whether a provider may be called at all, before policy is asked: a pure function of what its denial keeps. */
import { z } from 'zod'
import { reference } from '../../policy/decision-request.ts'
import type { Replay } from '../../policy/replay.ts'
import type { Receipt } from '../../receipts/schema.ts'

const SCHEMA = 'craik.provider_decision/1'

const readinessFacts = z.strictObject({
  schema: z.literal(SCHEMA),
  provider_id: reference,
  modes: z.array(reference),
  trust_boundary: reference,
  /** False where the fixture answers instead. */
  dials: z.boolean(),
  /** Live routing was switched on. */
  enabled: z.boolean(),
  /** Null while the provider is well, or nothing is dialled. */
  breaker: z.strictObject({ now_ms: z.int(), open_until_ms: z.int(), probing: z.boolean() }).nullable(),
})

export type ReadinessFacts = z.infer<typeof readinessFacts>
export type ReadinessRule = 'provider.mode' | 'provider.not_enabled' | 'provider.cooling_down'

export function readiness(facts: Omit<ReadinessFacts, 'schema'>): ReadinessFacts {
  return { schema: SCHEMA, ...facts }
}

/** The first rule that refuses; undefined: nothing does. */
export function evaluateReadiness(facts: ReadinessFacts): ReadinessRule | undefined {
  const { modes, dials, trust_boundary, enabled, breaker } = facts
  if (!modes.includes('chat')) return 'provider.mode'
  if (dials && trust_boundary === 'local' && !enabled) return 'provider.not_enabled'
  if (breaker !== null && (breaker.probing || breaker.now_ms < breaker.open_until_ms))
    return 'provider.cooling_down'
  return undefined
}

export function isReadinessDecision({ decision }: Pick<Receipt['body'], 'decision'>): boolean {
  const input = decision?.input
  return typeof input === 'object' && input !== null && 'schema' in input && input.schema === SCHEMA
}

export async function replayReadiness(
  body: Pick<Receipt['body'], 'target' | 'links' | 'decision'>,
): Promise<Replay> {
  const { decision, links, target } = body
  if (decision === undefined || !decision.replayable || !isReadinessDecision(body)) return 'not_replayable'
  const parsed = readinessFacts.safeParse(decision.input)
  if (!parsed.success) return 'differs'
  const { provider_id } = parsed.data
  if (target !== provider_id || links.provider_id !== provider_id || decision.effect !== 'deny')
    return 'differs'
  return evaluateReadiness(parsed.data) === decision.rule ? 'agrees' : 'differs'
}
