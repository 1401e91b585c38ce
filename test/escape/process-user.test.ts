/** The escape suite against sandboxes by bubblewrap, made by an ordinary user. */
import { SandboxHome } from '../sandbox-home.ts'
import { escapeSuite } from './suite.ts'

escapeSuite('a process sandbox of an ordinary user', () => SandboxHome.open({ identity: 'user' }))
