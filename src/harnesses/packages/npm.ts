/** Runs npm with the user's own npm settings. It fetches the packages of a lock file and runs none of their scripts. */
import { delimiter, dirname } from 'node:path'
import { CraikError } from '../../errors.ts'
import { runChild } from '../../lib/child.ts'
import { findHostProgram, hostPath } from '../../lib/host-programs.ts'

export interface NpmOptions {
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
  /** Folders of the host that sandboxes can write to. Craik does not execute an npm in one of them. */
  readonly mounted: readonly string[]
  readonly signal: AbortSignal
  /** Called for each package that has arrived. */
  readonly onFetched?: () => void
}

const INSTALL_DEADLINE_MS = 20 * 60_000
const VIEW_DEADLINE_MS = 60_000
const GRACE_MS = 2_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024
const KEPT_CHARS = 16_000
const MAX_ANSWER_CHARS = 64 * 1024

/**
 * The variables that npm receives, with locations and network settings. Secrets are in npm's own files, and only npm
 * reads them.
 */
const PASSED = new Set([
  'home',
  'lang',
  'tmpdir',
  'xdg_config_home',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'all_proxy',
  'node_extra_ca_certs',
  'ssl_cert_file',
  'ssl_cert_dir',
  ...[
    'registry',
    'cafile',
    'ca',
    'proxy',
    'https_proxy',
    'noproxy',
    'strict_ssl',
    'userconfig',
    'globalconfig',
  ]
    .concat(['cache', 'offline', 'prefer_offline', 'fetch_retries', 'fetch_timeout', 'maxsockets'])
    .map((name) => `npm_config_${name}`),
])

/** These options override npm's own settings. */
const QUIET = [
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
  '--no-progress',
  '--no-color',
  '--global=false',
  '--workspaces=false',
  '--fetch-retries=2',
]

/** Installs exactly the packages of the lock file, for Linux on this kind of processor. No package script runs. */
export async function npmInstall(architecture: string, options: NpmOptions): Promise<void> {
  const platform = ['--os=linux', `--cpu=${architecture}`, '--libc=glibc']
  await npm(
    ['ci', '--ignore-scripts', '--omit=dev', '--include=optional', '--loglevel=http', ...platform],
    INSTALL_DEADLINE_MS,
    options,
  )
}

/** Returns the version that the registry publishes as the latest one. */
export async function fetchLatestVersion(name: string, options: NpmOptions): Promise<string> {
  const output = await npm(['view', name, 'version', '--json'], VIEW_DEADLINE_MS, options)
  const version = /^"([0-9][0-9A-Za-z.+-]{0,60})"$/.exec(output.trim())?.[1]
  if (version !== undefined) return version
  throw new CraikError('unavailable', `npm did not report the newest version of ${name}`, {
    hint: 'check npm’s settings:  npm ping',
  })
}

async function npm(
  args: readonly string[],
  timeoutMs: number,
  { folder, environment, mounted, signal, onFetched = () => {} }: NpmOptions,
): Promise<string> {
  const program = findHostProgram('npm', environment, mounted)
  if (program === undefined)
    throw new CraikError('unavailable', 'npm is not on PATH, or other users could replace it', {
      hint: 'install npm:  sudo apt-get install npm',
    })
  let output = ''
  let answer = ''
  const result = await runChild({
    argv: [...program.argv, ...args, ...QUIET],
    argv0: program.argv0,
    cwd: folder,
    env: environmentFor(environment),
    inputs: [],
    timeoutMs,
    graceMs: GRACE_MS,
    signal,
    maxOutputBytes: MAX_OUTPUT_BYTES,
    onStdout(chunk) {
      answer = (answer + chunk).slice(0, MAX_ANSWER_CHARS)
    },
    onStderr(chunk) {
      const text = chunk.toString()
      for (const _ of text.matchAll(/npm http (?:fetch GET 200|cache) \S+\.tgz/g)) onFetched()
      output = (output + text).slice(-KEPT_CHARS)
    },
  })
  signal.throwIfAborted()
  if (result.end === 'exited' && result.exitCode === 0) return answer
  throw explain(output, result.end)
}

function environmentFor(environment: NodeJS.ProcessEnv): Record<string, string> {
  const passed = Object.entries(environment).filter(([name]) => PASSED.has(name.toLowerCase()))
  // npm and the programs that it starts use Craik's Node and the system's programs.
  const PATH = [dirname(process.execPath), hostPath()].join(delimiter)
  return { ...Object.fromEntries(passed as [string, string][]), PATH }
}

const OFFLINE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+)\b/

/** Reports only the error lines of npm, without addresses, because an address can contain a password. */
function explain(output: string, end: string): CraikError {
  const complaints = output
    .split('\n')
    .filter((line) => line.startsWith('npm error'))
    .map((line) =>
      line
        .slice('npm error '.length)
        .replaceAll(/\b[a-z]+:\/\/\S+/g, '…')
        .slice(0, 300),
    )
    .slice(0, 10)
  const details = { said: complaints }
  if (/\b(ENOSPC|EDQUOT)\b/.test(output))
    return new CraikError('disk_full', 'no space left to install a harness', { details })
  const offline = OFFLINE.exec(output)?.[1]
  if (offline !== undefined || end === 'timeout')
    return new CraikError('unavailable', `the npm registry is unreachable (${offline ?? 'no response'})`, {
      hint: 'check the network and npm’s settings:  npm ping',
      details,
    })
  const code = /^npm error code (\S{1,40})/m.exec(output)?.[1] ?? end
  return new CraikError('unavailable', `npm failed (${code}): ${complaints[1] ?? 'no reason reported'}`, {
    hint: 'check npm’s settings:  npm ping',
    details,
  })
}
