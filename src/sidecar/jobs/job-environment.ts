/** The default environment of programs in the sandbox. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { INSIDE, SIDECAR_ENV } from '../protocol.ts'

export interface JobFolders {
  readonly home: string
  readonly workspace: string
  readonly gatewayPort: number
  /** The environment that the sidecar itself was started with. */
  readonly own: Readonly<Record<string, string | undefined>>
}

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** There are fewer harnesses than this. A program in the sandbox can create any number of folders. */
const MAX_HARNESSES = 32

/** Variables that only the sidecar itself uses. */
const HIDDEN = new Set<string>([
  ...Object.values(SIDECAR_ENV),
  'NODE_COMPILE_CACHE',
  'NODE_OPTIONS',
  'OLDPWD',
  'PWD',
  'SHLVL',
  '_',
])

/** Returns the defaults, overridden by the sandbox's variables, and both overridden by the caller's. */
export function environmentOf(
  folders: JobFolders,
  added: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const gateway = `http://127.0.0.1:${folders.gatewayPort}`
  const env: Record<string, string> = {
    PATH,
    HOME: folders.home,
    USER: 'agent',
    LOGNAME: 'agent',
    SHELL: '/bin/sh',
    LANG: 'C.UTF-8',
    TERM: 'dumb',
    TMPDIR: '/tmp',
    HTTP_PROXY: gateway,
    HTTPS_PROXY: gateway,
    http_proxy: gateway,
    https_proxy: gateway,
    // Programs cannot install anything for the whole system. pip therefore installs to the home, beside what npm
    // installs.
    PIP_BREAK_SYSTEM_PACKAGES: '1',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    PYTHONUSERBASE: join(folders.home, '.local'),
    NO_PROXY: 'localhost,127.0.0.1,::1',
    no_proxy: 'localhost,127.0.0.1,::1',
  }
  for (const [name, value] of Object.entries(folders.own)) {
    if (value !== undefined && !HIDDEN.has(name) && !name.startsWith('CRAIK_')) env[name] = value
  }
  // In a sandbox without a root file system of its own, the sidecar's variables may name the host's home.
  env.HOME = folders.home
  env.PATH = [...ownFolders(folders.home), env.PATH].join(':')
  return { ...env, ...added }
}

/** Programs that were installed or added in this sandbox come first. Then come those that it was created with. */
function ownFolders(home: string): string[] {
  return [
    join(home, '.local/bin'),
    ...binFolders(join(home, INSIDE.addedHarnesses)),
    ...binFolders(INSIDE.harnesses),
  ]
}

/** A harness that is being installed has a name that begins with a dot. A colon would split a name in two. */
function binFolders(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => !name.startsWith('.') && !name.includes(':'))
    return names
      .sort()
      .slice(0, MAX_HARNESSES)
      .map((name) => join(folder, name, 'bin'))
  } catch {
    return []
  }
}
