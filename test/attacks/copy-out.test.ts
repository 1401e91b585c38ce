/** Files that `craik sandbox cp` copies out of a process sandbox. */
import { SandboxHome } from '../sandbox-home.ts'
import { copyOutAttacks } from './copy-out.ts'

copyOutAttacks('a process sandbox', () => SandboxHome.open({ identity: 'user' }))
