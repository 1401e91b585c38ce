/** Programs that a supervisor of containers executes on the host. */
import { describe } from 'vitest'
import { traceLifecycle } from '../attacks/supervisor-programs.ts'

describe('the programs of a supervisor of containers', () => {
  traceLifecycle({ identity: 'root', backend: 'docker' }, ['mount', 'umount'])
})
