/** GitHub: the output of `gh auth token`, or the file of `gh` when `gh` is not installed. */
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { hostEnvironment, runChild } from '../../lib/child.ts'
import { type FoundProgram, findHostProgram, PINS_VARIABLE } from '../../lib/host-programs.ts'
import { BASE_URLS, isHeaderSafe, keyHeaders } from '../api-keys.ts'
import { LOGIN_COMMANDS } from '../log-in-again.ts'
import type { Found, HostEnvironment, Probe, ProbeProblem } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { VaultProblem } from '../vaults/vault.ts'
import { configFolderOf, shortenHome } from './searched-locations.ts'

const ID = 'github'
const LOGIN = LOGIN_COMMANDS.github
const TIMEOUT_MS = 10_000
/** How long an answer of `gh` is valid. A change of its file, as by a logout, makes it invalid at once. */
const GOOD_FOR_MS = 5 * 60_000

const hostEntry = z.looseObject({
  user: z.string().max(200).optional(),
  oauth_token: z.string().max(8_192).optional(),
  users: z
    .record(z.string().max(200), z.looseObject({ oauth_token: z.string().max(8_192).optional() }).nullable())
    .optional(),
})
const hostsFile = z.record(z.string().max(300), hostEntry.nullable())

export const githubProbe: Probe = {
  name: ID,
  async stamp(host) {
    const file = await fileStamp([pathIn(host)], host.nowMs())
    const pinned = host.environment[PINS_VARIABLE] ?? ''
    return file && `${file}|${Math.floor(host.nowMs() / GOOD_FOR_MS)}|${pinned}`
  },
  searchedLocations: (host) => ['`gh auth token`', shortenHome(host, pathIn(host))],
  async probe(host, until) {
    const path = pathIn(host)
    const source = shortenHome(host, path)
    try {
      const entry = await readEntry(host, path, source, until)
      const gh = findHostProgram('gh', host.environment, await host.mounted())
      const requested = gh === undefined ? undefined : await askGh(gh, host, until)
      if (requested !== undefined && typeof requested !== 'string') return [requested]
      const token =
        gh === undefined ? entry?.oauth_token || entry?.users?.[entry.user ?? '']?.oauth_token : requested
      if (token === undefined || token === '') return []
      return [toFound(host, token, gh === undefined ? source : '`gh auth token`', entry?.user)]
    } catch (error) {
      if (!(error instanceof VaultProblem)) throw error
      return [{ id: ID, source, problem: error.message, hint: error.hint }]
    }
  },
}

function pathIn(host: HostEnvironment): string {
  const folder = host.environment.GH_CONFIG_DIR
    ? configFolderOf(host, 'GH_CONFIG_DIR', [])
    : join(configFolderOf(host, 'XDG_CONFIG_HOME', ['.config']), 'gh')
  return join(folder, 'hosts.yml')
}

/** Returns the host that the user logs in to. GitHub Enterprise has its own. */
function hostOf({ overrides }: HostEnvironment): string {
  const base = overrides[ID]?.base_url
  return base === undefined ? 'github.com' : new URL(base).host
}

function toFound(host: HostEnvironment, token: string, source: string, who: string | undefined): Found {
  if (!isHeaderSafe(token))
    throw new VaultProblem(`${source} did not return a token`, `log in again:  ${LOGIN}`)
  return {
    account: {
      id: ID,
      family: 'github',
      source,
      expiresAtMs: undefined,
      who,
      billing: 'subscription',
      kind: token.startsWith('gho_') ? 'oauth' : 'api_key',
      baseUrl: host.overrides[ID]?.base_url ?? BASE_URLS.github,
      gitBaseUrl: `https://${hostOf(host)}`,
    },
    login: { kind: 'key', headers: keyHeaders('github'), read: async () => token },
  }
}

async function readEntry(
  host: HostEnvironment,
  path: string,
  source: string,
  until: AbortSignal,
): Promise<z.infer<typeof hostEntry> | undefined> {
  const snapshot = await fileVault(path, source).read(until)
  if (snapshot === undefined) return undefined
  try {
    const { parse } = await import('yaml')
    return hostsFile.parse(parse(snapshot.text, { maxAliasCount: 0 }) ?? {})[hostOf(host)] ?? undefined
  } catch {
    throw new VaultProblem(`${source} is damaged or half-written`, `log in again:  ${LOGIN}`)
  }
}

/** Returns the token, `undefined` when nobody is logged in, or the reason for a failure. */
async function askGh(
  gh: FoundProgram,
  host: HostEnvironment,
  until: AbortSignal,
): Promise<string | undefined | ProbeProblem> {
  const { environment } = host
  // GH_TOKEN and GITHUB_TOKEN are left out: gh would print them.
  const env: Record<string, string> = { ...hostEnvironment(environment), HOME: host.userHome }
  for (const name of ['GH_CONFIG_DIR', 'XDG_CONFIG_HOME', 'DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR'])
    if (environment[name]) env[name] = environment[name]
  const chunks: Buffer[] = []
  const result = await runChild({
    argv: [...gh.argv, 'auth', 'token', '--hostname', hostOf(host)],
    argv0: gh.argv0,
    cwd: '/',
    env,
    timeoutMs: TIMEOUT_MS,
    signal: until,
    maxOutputBytes: 16_384,
    onStdout: (chunk) => void chunks.push(chunk),
    onStderr: () => {},
  })
  if (result.end === 'cancelled')
    throw new CraikError('interrupted', 'interrupted while requesting a token from gh')
  if (result.end === 'exited')
    return result.exitCode === 0 ? Buffer.concat(chunks).toString().trim() : undefined
  return {
    id: ID,
    source: '`gh auth token`',
    problem: '`gh auth token` failed or did not answer in time',
    hint: 'check its output:  gh auth status',
  }
}
