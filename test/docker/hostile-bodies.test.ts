/** One guest in a container cannot freeze everybody: request bodies that are dear to read. */
import { describe, it } from 'vitest'
import { refusesHostileBodies } from '../attacks/hostile-bodies.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { LoginScene } from '../gateway/login-scene.ts'
import { canBe } from '../sandbox-home.ts'

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'in a container', () => {
  it('bodies that unpack to millions of numbers do not occupy the supervisor', async () => {
    await using scene = await LoginScene.open({
      identity: canBe('root') ? 'root' : 'user',
      backend: 'docker',
    })
    await refusesHostileBodies(scene)
  })
})
