/** Finds the system programs that create a sandbox. */
import { CraikError } from '../../../errors.ts'
import { findSystemProgram } from '../../../lib/host-programs.ts'

/** The PATH of the scripts that run on the host. No user's PATH changes it. */
export const SYSTEM_PATH = '/usr/sbin:/usr/bin:/sbin:/bin'

const PACKAGES = { sh: 'dash', prlimit: 'util-linux', setpriv: 'util-linux', unshare: 'util-linux' } as const

export type HostPrograms = Readonly<Record<keyof typeof PACKAGES, string>> & {
  /** An init that reaps processes. Without it, bubblewrap's own init does. */
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
