/** What comes out of a process sandbox by `craik sandbox cp`. */
import { SandboxHome } from '../sandbox-home.ts'
import { copyOutAttacks } from './copy-out.ts'

copyOutAttacks('a process sandbox', () => SandboxHome.open({ identity: 'user' }))
