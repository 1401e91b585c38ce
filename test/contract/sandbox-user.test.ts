/** Runs the contract of sandboxes for the process backend, with Craik as an ordinary user. */
import { SandboxHome } from '../sandbox-home.ts'
import { sandboxContract } from './sandbox.ts'

sandboxContract('process, run by user', () => SandboxHome.open({ identity: 'user' }))
