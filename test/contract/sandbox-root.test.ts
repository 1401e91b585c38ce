/** Runs the contract of sandboxes for the process backend, with Craik as root. */
import { describe } from 'vitest'
import { canBe, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'
import { sandboxContract } from './sandbox.ts'

describe.skipIf(!canBe('root'))(ROOT_IS_NEEDED ?? 'root', () => {
  sandboxContract('process, run by root', () => SandboxHome.open({ identity: 'root' }))
})
