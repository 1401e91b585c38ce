/** One container cannot block all others with request bodies that are expensive to parse. */
import { describe, it } from 'vitest'
import { refusesHostileBodies } from '../attacks/hostile-bodies.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { LoginScene } from '../gateway/login-scene.ts'
import { canBe } from '../sandbox-home.ts'

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'in a container', () => {
  it('request bodies that decompress to millions of numbers do not block the supervisor', async () => {
    await using scene = await LoginScene.open({
      identity: canBe('root') ? 'root' : 'user',
      backend: 'docker',
    })
    await refusesHostileBodies(scene)
  })
})
