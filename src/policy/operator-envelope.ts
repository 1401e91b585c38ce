/** The envelope that an operator's own commands run under. */
import { createHash } from 'node:crypto'
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Home } from '../store/home.ts'
import type { Store } from '../store/store.ts'
import { buildEnvelope, createEnvelope, type Envelope, getEnvelope, sameEnvelope } from './envelope.ts'
import { type PolicyProfile, profileText } from './profiles.ts'

interface OperatorDeps {
  readonly store: Store
  readonly home: Home
  readonly clock: Clock
  readonly operator: string
}

/**
 * Returns the envelope for an operator and policy text, and creates it if needed. Task envelopes start with `policy_`,
 * so ids cannot collide. A stored envelope must still equal a new one.
 */
export async function operatorEnvelope(deps: OperatorDeps, profile: PolicyProfile): Promise<Envelope> {
  const policyText = await profileText(profile, deps.home)
  const name = createHash('sha256')
    .update(JSON.stringify([deps.operator, profile, policyText]))
    .digest('hex')
  const id = `envelope_operator_${name.slice(0, 32)}`
  const envelope = buildEnvelope({
    id,
    taskId: null,
    actor: deps.operator,
    profile,
    policyText,
    nowMs: deps.clock.nowMs(),
  })
  const known = await getEnvelope(deps.store, id)
  if (known !== undefined && !sameEnvelope(known, envelope)) {
    throw new CraikError('conflict', `the policy envelope ${id} of your commands was changed`, {
      hint: 'check what changed this Craik home:  craik receipts verify',
    })
  }
  if (known !== undefined) return known
  return (await createEnvelope(deps.store, envelope, policyText, { operator: deps.operator })).envelope
}
