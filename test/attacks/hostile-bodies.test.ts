/** One guest cannot block the others with request bodies that are expensive to read. */
import { it } from 'vitest'
import { LoginScene } from '../gateway/login-scene.ts'
import { canBe } from '../sandbox-home.ts'
import { refusesHostileBodies } from './hostile-bodies.ts'

it('bodies that unpack to millions of numbers do not block the supervisor', async () => {
  await using scene = await LoginScene.open({ identity: canBe('root') ? 'root' : 'user' })
  await refusesHostileBodies(scene)
})
