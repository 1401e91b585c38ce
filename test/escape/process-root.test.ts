/** The escape suite against bubblewrap sandboxes that root creates. */
import { describe } from 'vitest'
import { canBe, SandboxHome } from '../sandbox-home.ts'
import { escapeSuite } from './suite.ts'

describe.skipIf(!canBe('root'))('as root (only root can run this)', () => {
  escapeSuite('a process sandbox of root', () => SandboxHome.open({ identity: 'root' }))
})
