/** The programs that a supervisor with containers runs on the host. */
import { describe } from 'vitest'
import { traceLifecycle } from '../attacks/supervisor-programs.ts'

describe('the programs of a supervisor with containers', () => {
  traceLifecycle({ identity: 'root', backend: 'docker' }, ['mount', 'umount'])
})
