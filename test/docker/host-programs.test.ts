/** Code in a container puts programs on the PATH of the user's shell. Craik never runs them on the host. */
import { attackHostPrograms } from '../attacks/host-programs.ts'

attackHostPrograms({ identity: 'root', backend: 'docker' })
