/** The envelope that an operator's own commands run under. */
import { createHash } from 'node:crypto'
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Home } from '../store/home.ts'
import type { Store } from '../store/store.ts'
import { buildEnvelope, createEnvelope, type Envelope, getEnvelope, sameEnvelope } from './envelope.ts'
import { type PolicyProfile, profileText } from './profiles.ts'

interface OperatorPlace {
  readonly store: Store
  readonly home: Home
  readonly clock: Clock
  readonly operator: string
}

/**
 * One per operator and policy text. Envelopes of tasks are called `policy_…`, so none of them has its id; what is found
 * under it has to be what would be made all the same.
 */
export async function operatorEnvelope(place: OperatorPlace, profile: PolicyProfile): Promise<Envelope> {
  const policyText = await profileText(profile, place.home)
  const name = createHash('sha256')
    .update(JSON.stringify([place.operator, profile, policyText]))
    .digest('hex')
  const id = `envelope_operator_${name.slice(0, 32)}`
  const envelope = buildEnvelope({
    id,
    taskId: null,
    actor: place.operator,
    profile,
    policyText,
    nowMs: place.clock.nowMs(),
  })
  const known = await getEnvelope(place.store, id)
  if (known !== undefined && !sameEnvelope(known, envelope)) {
    throw new CraikError(
      'conflict',
      `policy envelope ${id} was changed: it is not the envelope of your commands`,
      {
        hint: 'check what changed this Craik home:  craik receipts verify',
      },
    )
  }
  if (known !== undefined) return known
  return (await createEnvelope(place.store, envelope, policyText, { operator: place.operator })).envelope
}
