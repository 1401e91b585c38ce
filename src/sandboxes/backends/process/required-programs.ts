/** The programs of the system that a sandbox is made with. */
import { CraikError } from '../../../errors.ts'
import { findSystemProgram } from '../../../lib/host-programs.ts'

/** Where the scripts that run on the host look for programs; nobody's PATH has a say in it. */
export const SYSTEM_PATH = '/usr/sbin:/usr/bin:/sbin:/bin'

const PACKAGES = { sh: 'dash', prlimit: 'util-linux', setpriv: 'util-linux', unshare: 'util-linux' } as const

export type HostPrograms = Readonly<Record<keyof typeof PACKAGES, string>> & {
  /** An init that reaps; without one bubblewrap's own does. */
  readonly tini: string | undefined
}

export function findPrograms(environment: NodeJS.ProcessEnv): HostPrograms {
  const found = Object.entries(PACKAGES).map(([name, packaged]) => {
    const path = findSystemProgram(name as keyof typeof PACKAGES, SYSTEM_PATH)
    if (path === undefined) {
      throw new CraikError('unavailable', `${name} is not installed`, {
        hint: `apt-get install ${packaged}`,
      })
    }
    return [name, path]
  })
  return { ...Object.fromEntries(found), tini: findSystemProgram('tini', environment.PATH) }
}
