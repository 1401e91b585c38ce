/** Model calls from real sandboxes, with placeholder credentials for logins that stay on the host. */
import { it } from 'vitest'
import { canBe, IDENTITIES, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { LoginScene } from './login-scene.ts'
import { checkModelCalls } from './model-calls.ts'

for (const identity of IDENTITIES) {
  const missing = canBe(identity) ? undefined : ROOT_IS_NEEDED
  it.skipIf(missing !== undefined)(
    missing ??
      `as ${identity}: each dialect is asked with a stand-in, and answered with the real login or key`,
    async () => {
      await using scene = await LoginScene.open({ identity })
      await checkModelCalls(scene)
    },
  )
}
