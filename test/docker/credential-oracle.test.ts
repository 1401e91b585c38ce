/** A provider's responses reveal nothing about the credential to a program in a container. */
import { describe, it } from 'vitest'
import { LONG_TIMEOUT, recoversNothing, seesTheSameWithEach } from '../attacks/credential-oracle.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { canBe } from '../sandbox-home.ts'

const instance = { identity: canBe('root') ? 'root' : 'user', backend: 'docker' } as const

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'in a container', () => {
  it('guessing a credential character by character recovers nothing', () => recoversNothing(instance))

  it(
    'a program in the sandbox gets the same responses with either of two credentials, on every route',
    LONG_TIMEOUT,
    () => seesTheSameWithEach(instance),
  )
})
