/** What a program inside finds in its environment when nobody says otherwise. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { INSIDE, SIDECAR_ENV } from '../protocol.ts'

export interface JobFolders {
  readonly home: string
  readonly workspace: string
  readonly gatewayPort: number
  /** What the sidecar itself was started with. */
  readonly own: Readonly<Record<string, string | undefined>>
}

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** More than there are; a program of the sandbox's own may put any number of folders there. */
const MAX_HARNESSES = 32

/** Names that are the sidecar's own business. */
const HIDDEN = new Set<string>([
  ...Object.values(SIDECAR_ENV),
  'NODE_COMPILE_CACHE',
  'NODE_OPTIONS',
  'OLDPWD',
  'PWD',
  'SHLVL',
  '_',
])

/** The sandbox's own names over the defaults, and the caller's over both. */
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
    // Nothing can be installed for the whole system: what pip installs goes to the home, beside what npm does.
    PIP_BREAK_SYSTEM_PACKAGES: '1',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    PYTHONUSERBASE: join(folders.home, '.local'),
    NO_PROXY: 'localhost,127.0.0.1,::1',
    no_proxy: 'localhost,127.0.0.1,::1',
  }
  for (const [name, value] of Object.entries(folders.own)) {
    if (value !== undefined && !HIDDEN.has(name) && !name.startsWith('CRAIK_')) env[name] = value
  }
  // What the sidecar was started with may point at the host's home where it has no root of its own.
  env.HOME = folders.home
  env.PATH = [...ownFolders(folders.home), env.PATH].join(':')
  return { ...env, ...added }
}

/** What was installed or added by whoever works here comes first, then what the sandbox was made with. */
function ownFolders(home: string): string[] {
  return [
    join(home, '.local/bin'),
    ...binFolders(join(home, INSIDE.addedHarnesses)),
    ...binFolders(INSIDE.harnesses),
  ]
}

/** One that is being put there begins with a dot. A colon would make two of one. */
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
