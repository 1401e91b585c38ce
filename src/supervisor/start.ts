/** Starts a supervisor that outlives the command that started it. It inherits only what this file lists. */
import { type StdioOptions, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { CraikError } from '../errors.ts'
import { hostPath, PINS_VARIABLE, pinPrograms } from '../lib/host-programs.ts'
import { listInherited } from '../lib/inherited-descriptors.ts'
import { findContainingFolder, resolveTrustedPath } from '../lib/trusted-path.ts'
import { userCache } from '../lib/user-cache.ts'
import type { SupervisorDeps } from './connect-or-start.ts'
import type { RunFolder } from './run-folder.ts'
import { openLogFile } from './supervisor-log.ts'

export interface StartedSupervisor {
  /**
   * Returns `undefined` while the supervisor runs. Returns 0 also when it was killed, because the next one may work.
   */
  exitCode(): number | undefined
}

/** The variables that the supervisor needs from the environment. None of them can hold a secret. */
const INHERITED_VARIABLES = [
  'HOME',
  'LANG',
  'LC_ALL',
  'TZ',
  // These name the folders where programs store their logins.
  'CLAUDE_CONFIG_DIR',
  'CODEX_HOME',
  'GEMINI_CLI_HOME',
  'KIMI_CODE_HOME',
  'GH_CONFIG_DIR',
  'XDG_CONFIG_HOME',
  'XDG_DATA_HOME',
  'XDG_CACHE_HOME',
  // These name the container engine.
  'CRAIK_ENGINE',
  'DOCKER_HOST',
  'DOCKER_TLS_VERIFY',
]

/**
 * The certificate authorities to trust besides the system's own, such as that of a snapshot store in this network, and
 * the key for the engine. A user who can write these files decides which servers the supervisor trusts, so the rule for
 * programs applies to them.
 */
const TRUST_PATHS = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'DOCKER_CERT_PATH'] as const

/**
 * The folders of files and sockets of the user's session. Craik omits them if another user or a sandbox could replace
 * them.
 */
const SESSION_PATHS = ['TMPDIR', 'XDG_RUNTIME_DIR']

/** `mounted` returns the folders of the host that sandboxes can write. */
async function supervisorEnvironment(
  environment: NodeJS.ProcessEnv,
  mounted: () => Promise<readonly string[]>,
): Promise<Record<string, string>> {
  const env: Record<string, string> = {
    PATH: hostPath(),
    [PINS_VARIABLE]: environment[PINS_VARIABLE] ?? JSON.stringify(pinPrograms(environment)),
  }
  for (const name of INHERITED_VARIABLES) {
    const value = environment[name]
    if (value !== undefined) env[name] = value
  }
  await requireCacheOutside(environment, mounted)
  for (const name of [...TRUST_PATHS, ...SESSION_PATHS]) {
    const value = environment[name] ?? ''
    const listed = name === 'SSL_CERT_DIR' ? value.split(':') : [value]
    // Node and OpenSSL ignore missing paths.
    const paths = listed.filter((path) => path !== '' && existsSync(path))
    if (paths.length === 0) continue
    const real = await resolveTrustedPaths(paths, mounted)
    if (real !== undefined) env[name] = real.join(':')
    else if (!SESSION_PATHS.includes(name)) throw untrustedPathError(name, environment[name]!)
  }
  return env
}

/** Refuses a cache folder that a sandbox can write, because the supervisor executes what is in it. */
async function requireCacheOutside(
  environment: NodeJS.ProcessEnv,
  mounted: () => Promise<readonly string[]>,
): Promise<void> {
  // The default cache folder is in the home folder, which no sandbox can mount.
  if (environment.XDG_CACHE_HOME === undefined) return
  const cache = userCache(environment)
  const lent = findContainingFolder(cache, await mounted())
  if (lent === undefined) return
  throw new CraikError('usage', `the cache folder ${cache} is inside ${lent}, which a sandbox can write`, {
    hint: 'set XDG_CACHE_HOME to a folder outside every workspace',
  })
}

async function resolveTrustedPaths(
  paths: readonly string[],
  mounted: () => Promise<readonly string[]>,
): Promise<readonly string[] | undefined> {
  const found = paths.flatMap((path) => resolveTrustedPath(path, 'root-or-user') ?? [])
  const folders = await mounted()
  const isOutside = found.every(({ locations }) =>
    locations.every((location) => findContainingFolder(location, folders) === undefined),
  )
  return found.length === paths.length && isOutside ? found.map(({ real }) => real) : undefined
}

function untrustedPathError(name: string, value: string): CraikError {
  return new CraikError(
    'usage',
    `${name} names ${value}, which Craik trusts, but another user or a sandbox can change it`,
    { hint: 'copy it to a folder that only you or root can write, or unset the variable' },
  )
}

export async function startSupervisor(deps: SupervisorDeps, folder: RunFolder): Promise<StartedSupervisor> {
  const env = {
    ...(await supervisorEnvironment(deps.environment, deps.mounted ?? (async () => []))),
    CRAIK_HOME: deps.home.root,
  }
  const log = openLogFile(folder.log)
  const nothing = openSync('/dev/null', 'r')
  let exitCode: number | undefined
  try {
    const stdio: StdioOptions = ['ignore', log, log]
    // The shell may have left descriptors open for its programs. A process that stays must not hold them.
    for (const descriptor of listInherited()) {
      while (stdio.length <= descriptor) stdio.push('ignore')
      stdio[descriptor] = nothing
    }
    const child = spawn(process.execPath, [deps.mainFile, 'supervisor', 'run', ...(deps.runFlags ?? [])], {
      cwd: '/',
      env,
      detached: true,
      stdio,
    })
    child.once('error', () => {
      exitCode = 127
    })
    child.once('exit', (code) => {
      exitCode = code ?? 0
    })
    child.unref()
  } finally {
    closeSync(nothing)
    closeSync(log)
  }
  return { exitCode: () => exitCode }
}

/**
 * Detaches this process from the environment of its starter. It also applies when the user types `supervisor run` in a
 * shell.
 */
export async function detachFromStarter(mounted: () => Promise<readonly string[]>): Promise<void> {
  const own: Record<string, string> = await supervisorEnvironment(process.env, mounted)
  if (process.env.CRAIK_HOME !== undefined) own.CRAIK_HOME = process.env.CRAIK_HOME
  for (const name of Object.keys(process.env)) if (!(name in own)) delete process.env[name]
  Object.assign(process.env, own)
  process.umask(0o077)
  process.chdir('/')
}
