/** The known problems of similar sandboxes, in a process sandbox. */
import { afterAll, beforeAll, describe } from 'vitest'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { hazards } from './hazards.ts'
import { LoginSandboxScene } from './scene.ts'

const missing = canBe('root') ? undefined : ROOT_IS_NEEDED

describe.skipIf(missing !== undefined)(missing ?? 'the sandbox of a login, as a process', () => {
  let here: LoginSandboxScene
  beforeAll(async () => {
    here = await LoginSandboxScene.open({ identity: 'root' })
    here.logInToGitHub('octo')
    here.scene.logIn('claude')
    await here.up()
  }, 180_000)
  afterAll(() => here?.[Symbol.asyncDispose]())
  hazards(() => here)
})
