/** npm, as the person who runs Craik has set it up: it fetches what a lock names, and runs none of it. */
import { delimiter, dirname } from 'node:path'
import { CraikError } from '../../errors.ts'
import { runChild } from '../../lib/child.ts'
import { findHostProgram, hostPath } from '../../lib/host-programs.ts'

export interface NpmOptions {
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
  /** Folders of the host that sandboxes can write: no npm in them is executed. */
  readonly mounted: readonly string[]
  readonly signal: AbortSignal
  /** One more package has arrived. */
  readonly onFetched?: () => void
}

const INSTALL_DEADLINE_MS = 20 * 60_000
const VIEW_DEADLINE_MS = 60_000
const GRACE_MS = 2_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024
const KEPT_CHARS = 16_000
const MAX_ANSWER_CHARS = 64 * 1024

/** Where things are and how they are reached; what is secret stands in npm's own files, and is left to them. */
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

/** Whatever npm's own settings say of these. */
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

/** Exactly what the lock says, for Linux on that kind of processor. No script of a package runs. */
export async function npmInstall(architecture: string, options: NpmOptions): Promise<void> {
  const platform = ['--os=linux', `--cpu=${architecture}`, '--libc=glibc']
  await npm(
    ['ci', '--ignore-scripts', '--omit=dev', '--include=optional', '--loglevel=http', ...platform],
    INSTALL_DEADLINE_MS,
    options,
  )
}

/** The newest version that is offered to everybody. */
export async function fetchLatestVersion(name: string, options: NpmOptions): Promise<string> {
  const output = await npm(['view', name, 'version', '--json'], VIEW_DEADLINE_MS, options)
  const version = /^"([0-9][0-9A-Za-z.+-]{0,60})"$/.exec(output.trim())?.[1]
  if (version !== undefined) return version
  throw new CraikError('unavailable', `npm did not report the newest version of ${name}`)
}

async function npm(
  args: readonly string[],
  timeoutMs: number,
  { folder, environment, mounted, signal, onFetched = () => {} }: NpmOptions,
): Promise<string> {
  const program = findHostProgram('npm', environment, mounted)
  if (program === undefined)
    throw new CraikError('unavailable', 'npm is not on PATH, or other users could replace it', {
      hint: 'install it:  sudo apt-get install npm',
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
  // npm, and what it starts, finds our Node and the programs of the system.
  const PATH = [dirname(process.execPath), hostPath()].join(delimiter)
  return { ...Object.fromEntries(passed as [string, string][]), PATH }
}

const OFFLINE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+)\b/

/** Of what npm says only its complaints, and no address: one may have somebody's password in it. */
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
