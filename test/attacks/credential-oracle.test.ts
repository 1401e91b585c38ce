/** A provider's answers are no oracle for the credential: from inside a process sandbox. */
import { it } from 'vitest'
import { PATIENT, recoversNothing, seesTheSameWithEach } from './credential-oracle.ts'

it('guessing a credential character by character recovers nothing', () =>
  recoversNothing({ identity: 'user' }))

it('a guest sees the same with either of two credentials, on every route', PATIENT, () =>
  seesTheSameWithEach({ identity: 'user' }),
)
