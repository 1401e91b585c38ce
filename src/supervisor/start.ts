/** Starts a supervisor that outlives the command that started it, and inherits only what is listed here. */
import { type StdioOptions, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { CraikError } from '../errors.ts'
import { hostPath, PINNED, pinPrograms } from '../lib/host-programs.ts'
import { listInherited } from '../lib/inherited-descriptors.ts'
import { liesIn, resolveTrustedPath } from '../lib/trusted-path.ts'
import { userCache } from '../lib/user-cache.ts'
import type { SupervisorDeps } from './connect-or-start.ts'
import type { RunFolder } from './run-folder.ts'
import { openLogFile } from './supervisor-log.ts'

export interface Starting {
  /** Undefined while it runs; 0 also when it was killed, which says nothing of what the next one will do. */
  exitCode(): number | undefined
}

/** All that it needs of its starter's environment, and nothing that could hold a secret. */
const KEPT = [
  'HOME',
  'LANG',
  'LC_ALL',
  'TZ',
  // Where programs keep their logins.
  'CLAUDE_CONFIG_DIR',
  'CODEX_HOME',
  'GEMINI_CLI_HOME',
  'KIMI_CODE_HOME',
  'GH_CONFIG_DIR',
  'XDG_CONFIG_HOME',
  'XDG_DATA_HOME',
  'XDG_CACHE_HOME',
  // Where the container engine is.
  'CRAIK_ENGINE',
  'DOCKER_HOST',
  'DOCKER_TLS_VERIFY',
]

/**
 * Whom to trust besides the system's own authorities, such as that of a store in this network, and by which key the engine is
 * reached. Who can write these files decides whom the supervisor talks to, so the rule for programs holds for them.
 */
const TRUST_PATHS = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'DOCKER_CERT_PATH'] as const

/** Where files and sockets of the user's session are; left out when somebody else could exchange them. */
const SESSION_PATHS = ['TMPDIR', 'XDG_RUNTIME_DIR']

/** `mounted` are the folders of the host that sandboxes can write. */
async function supervisorEnvironment(
  environment: NodeJS.ProcessEnv,
  mounted: () => Promise<readonly string[]>,
): Promise<Record<string, string>> {
  const env: Record<string, string> = {
    PATH: hostPath(),
    [PINNED]: environment[PINNED] ?? JSON.stringify(pinPrograms(environment)),
  }
  for (const name of KEPT) {
    const value = environment[name]
    if (value !== undefined) env[name] = value
  }
  await requireCacheOutside(environment, mounted)
  for (const name of [...TRUST_PATHS, ...SESSION_PATHS]) {
    // A list where the name says so; Node and OpenSSL ignore what is missing.
    const paths = (environment[name] ?? '').split(':').filter((path) => path !== '' && existsSync(path))
    if (paths.length === 0) continue
    const real = await resolveTrustedPaths(paths, mounted)
    if (real !== undefined) env[name] = real.join(':')
    else if (!SESSION_PATHS.includes(name)) throw untrustedPathError(name, environment[name]!)
  }
  return env
}

/** The supervisor executes what is in the cache. */
async function requireCacheOutside(
  environment: NodeJS.ProcessEnv,
  mounted: () => Promise<readonly string[]>,
): Promise<void> {
  // The usual folder lies in the home folder, which is lent to no sandbox.
  if (environment.XDG_CACHE_HOME === undefined) return
  const cache = userCache(environment)
  const lent = liesIn(cache, await mounted())
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
    locations.every((location) => liesIn(location, folders) === undefined),
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

export async function startSupervisor(deps: SupervisorDeps, folder: RunFolder): Promise<Starting> {
  const env = {
    ...(await supervisorEnvironment(deps.environment, deps.mounted ?? (async () => []))),
    CRAIK_HOME: deps.home.root,
  }
  const log = openLogFile(folder.log)
  const nothing = openSync('/dev/null', 'r')
  let exitCode: number | undefined
  try {
    const stdio: StdioOptions = ['ignore', log, log]
    // What the starter's shell left open for its programs is not for one that stays.
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

/** Of this process, which is to stay: also when somebody typed `supervisor run` in a shell. */
export async function detachFromStarter(mounted: () => Promise<readonly string[]>): Promise<void> {
  const own: Record<string, string> = await supervisorEnvironment(process.env, mounted)
  if (process.env.CRAIK_HOME !== undefined) own.CRAIK_HOME = process.env.CRAIK_HOME
  for (const name of Object.keys(process.env)) if (!(name in own)) delete process.env[name]
  Object.assign(process.env, own)
  process.umask(0o077)
  process.chdir('/')
}
