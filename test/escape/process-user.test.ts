/** The escape suite against bubblewrap sandboxes that an ordinary user creates. */
import { SandboxHome } from '../sandbox-home.ts'
import { escapeSuite } from './suite.ts'

escapeSuite('a process sandbox of an ordinary user', () => SandboxHome.open({ identity: 'user' }))
