/** All probes, in order of the preference of their accounts. */
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import type { Probe } from '../probe-result.ts'
import { environmentProbe } from './environment.ts'
import { githubProbe } from './github.ts'
import { opencodeProbe } from './opencode.ts'
import { PROGRAM_PROBES } from './program-probes.ts'
import { secretStoreProbe } from './secret-store.ts'

export function allProbes(home: Home, store: () => Promise<Store | undefined>): readonly Probe[] {
  return [...PROGRAM_PROBES, opencodeProbe, githubProbe, secretStoreProbe(home, store), environmentProbe]
}
