/** A process sandbox cannot find out a credential from a provider's answers. */
import { it } from 'vitest'
import { LONG_TIMEOUT, recoversNothing, seesTheSameWithEach } from './credential-oracle.ts'

it('guessing a credential character by character recovers nothing', () =>
  recoversNothing({ identity: 'user' }))

it('a guest sees the same with either of two credentials, on every route', LONG_TIMEOUT, () =>
  seesTheSameWithEach({ identity: 'user' }),
)
