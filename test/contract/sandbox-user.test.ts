/** The process sandbox passes the contract when an ordinary user runs Craik. */
import { SandboxHome } from '../sandbox-home.ts'
import { sandboxContract } from './sandbox.ts'

sandboxContract('process, run by user', () => SandboxHome.open({ identity: 'user' }))
