/** A provider's answers are no oracle for the credential: from inside a container. */
import { describe, it } from 'vitest'
import { PATIENT, recoversNothing, seesTheSameWithEach } from '../attacks/credential-oracle.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { canBe } from '../sandbox-home.ts'

const place = { identity: canBe('root') ? 'root' : 'user', backend: 'docker' } as const

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'in a container', () => {
  it('guessing a credential character by character recovers nothing', () => recoversNothing(place))

  it('a guest sees the same with either of two credentials, on every route', PATIENT, () =>
    seesTheSameWithEach(place),
  )
})
