/** What code in a container puts on the PATH of the person's shell is never run on the host. */
import { attackHostPrograms } from '../attacks/host-programs.ts'

attackHostPrograms({ identity: 'root', backend: 'docker' })
