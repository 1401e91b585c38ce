/** GitHub: what `gh auth token` says, or where there is no `gh`, the file that it would have kept. */
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { hostEnvironment, runChild } from '../../lib/child.ts'
import { type FoundProgram, findHostProgram, PINNED } from '../../lib/host-programs.ts'
import { BASE_URLS, isHeaderSafe, keyHeaders } from '../keys.ts'
import { LOGIN_COMMANDS } from '../log-in-again.ts'
import type { Found, HostEnvironment, Probe, ProbeProblem } from '../probe-result.ts'
import { fileStamp, fileVault } from '../vaults/file-vault.ts'
import { VaultProblem } from '../vaults/vault.ts'
import { configFolderOf, shortenHome } from './searched-locations.ts'

const ID = 'github'
const LOGIN = LOGIN_COMMANDS.github
const TIMEOUT_MS = 10_000
/** How long an answer of `gh` is good for; a change of its file, as by a logout, ends it at once. */
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
  async stamp(surroundings) {
    const file = await fileStamp([pathIn(surroundings)], surroundings.nowMs())
    const pinned = surroundings.environment[PINNED] ?? ''
    return file && `${file}|${Math.floor(surroundings.nowMs() / GOOD_FOR_MS)}|${pinned}`
  },
  places: (surroundings) => ['`gh auth token`', shortenHome(surroundings, pathIn(surroundings))],
  async probe(surroundings, until) {
    const path = pathIn(surroundings)
    const source = shortenHome(surroundings, path)
    try {
      const entry = await readEntry(surroundings, path, source, until)
      const gh = findHostProgram('gh', surroundings.environment, await surroundings.mounted())
      const asked = gh === undefined ? undefined : await askGh(gh, surroundings, until)
      if (asked !== undefined && typeof asked !== 'string') return [asked]
      const token =
        gh === undefined ? entry?.oauth_token || entry?.users?.[entry.user ?? '']?.oauth_token : asked
      if (token === undefined || token === '') return []
      return [found(surroundings, token, gh === undefined ? source : '`gh auth token`', entry?.user)]
    } catch (error) {
      if (!(error instanceof VaultProblem)) throw error
      return [{ id: ID, source, problem: error.message, hint: error.hint }]
    }
  },
}

function pathIn(surroundings: HostEnvironment): string {
  const folder = surroundings.environment.GH_CONFIG_DIR
    ? configFolderOf(surroundings, 'GH_CONFIG_DIR', [])
    : join(configFolderOf(surroundings, 'XDG_CONFIG_HOME', ['.config']), 'gh')
  return join(folder, 'hosts.yml')
}

/** The host that a person logs in to: another one for GitHub Enterprise. */
function hostOf({ overrides }: HostEnvironment): string {
  const base = overrides[ID]?.base_url
  return base === undefined ? 'github.com' : new URL(base).host
}

function found(surroundings: HostEnvironment, token: string, source: string, who: string | undefined): Found {
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
      baseUrl: surroundings.overrides[ID]?.base_url ?? BASE_URLS.github,
      gitBaseUrl: `https://${hostOf(surroundings)}`,
    },
    login: { kind: 'key', headers: keyHeaders('github'), read: async () => token },
  }
}

async function readEntry(
  surroundings: HostEnvironment,
  path: string,
  source: string,
  until: AbortSignal,
): Promise<z.infer<typeof hostEntry> | undefined> {
  const snapshot = await fileVault(path, source).read(until)
  if (snapshot === undefined) return undefined
  try {
    const { parse } = await import('yaml')
    return (
      hostsFile.parse(parse(snapshot.text, { maxAliasCount: 0 }) ?? {})[hostOf(surroundings)] ?? undefined
    )
  } catch {
    throw new VaultProblem(`${source} is damaged or half-written`, `log in again:  ${LOGIN}`)
  }
}

/** The token, undefined when nobody is logged in, or why there is no answer. */
async function askGh(
  gh: FoundProgram,
  surroundings: HostEnvironment,
  until: AbortSignal,
): Promise<string | undefined | ProbeProblem> {
  const { environment } = surroundings
  // Neither GH_TOKEN nor GITHUB_TOKEN is among these: gh would answer with them.
  const env: Record<string, string> = { ...hostEnvironment(environment), HOME: surroundings.userHome }
  for (const name of ['GH_CONFIG_DIR', 'XDG_CONFIG_HOME', 'DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR'])
    if (environment[name]) env[name] = environment[name]
  const chunks: Buffer[] = []
  const result = await runChild({
    argv: [...gh.argv, 'auth', 'token', '--hostname', hostOf(surroundings)],
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
