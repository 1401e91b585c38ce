/** Runs a suite for every kind of sandbox against containers. If it cannot, the name of the tests says why. */
import { describe } from 'vitest'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { canBe, type Identity, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'

type Suite = (name: string, open: () => Promise<SandboxHome>, line: SandboxHome['line']) => void

export function forContainersOf(identity: Identity, line: SandboxHome['line'], suite: Suite): void {
  const missing = canBe(identity) ? ENGINE_IS_NEEDED : ROOT_IS_NEEDED
  describe.skipIf(missing !== undefined)(missing ?? 'containers', () => {
    const open = () => SandboxHome.open({ identity, backend: 'docker', line })
    suite(`made by ${identity}, reached over a ${line}`, open, line)
  })
}
