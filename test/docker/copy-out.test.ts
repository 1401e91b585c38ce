/** Copying out of a container with `craik sandbox cp`. */
import { describe } from 'vitest'
import { copyOutAttacks } from '../attacks/copy-out.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { SandboxHome } from '../sandbox-home.ts'

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'copying out', () => {
  copyOutAttacks('a container', () => SandboxHome.open({ identity: 'user', backend: 'docker' }))
})
