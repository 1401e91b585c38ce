/** What a program inside finds in its environment when nobody says otherwise. */
import { SIDECAR_ENV } from '../protocol.ts'

export interface Place {
  readonly home: string
  readonly workspace: string
  readonly gatewayPort: number
  /** What the sidecar itself was started with. */
  readonly own: Readonly<Record<string, string | undefined>>
}

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

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
  place: Place,
  added: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const gateway = `http://127.0.0.1:${place.gatewayPort}`
  const env: Record<string, string> = {
    PATH,
    HOME: place.home,
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
    NO_PROXY: 'localhost,127.0.0.1,::1',
    no_proxy: 'localhost,127.0.0.1,::1',
  }
  for (const [name, value] of Object.entries(place.own)) {
    if (value !== undefined && !HIDDEN.has(name) && !name.startsWith('CRAIK_')) env[name] = value
  }
  // What the sidecar was started with may point at the host's home where it has no root of its own.
  env.HOME = place.home
  return { ...env, ...added }
}
