/** One guest cannot freeze everybody: request bodies that are dear to read. */
import { it } from 'vitest'
import { LoginScene } from '../gateway/login-scene.ts'
import { canBe } from '../sandbox-home.ts'
import { refusesHostileBodies } from './hostile-bodies.ts'

it('bodies that unpack to millions of numbers do not occupy the supervisor', async () => {
  await using scene = await LoginScene.open({ identity: canBe('root') ? 'root' : 'user' })
  await refusesHostileBodies(scene)
})
