/** The escape suite against sandboxes by bubblewrap, made by root. */
import { describe } from 'vitest'
import { canBe, SandboxHome } from '../sandbox-home.ts'
import { escapeSuite } from './suite.ts'

describe.skipIf(!canBe('root'))('root, whom only root can be', () => {
  escapeSuite('a process sandbox of root', () => SandboxHome.open({ identity: 'root' }))
})
