/** The files with sentinels for programs in a sandbox, and variables for programs that read no file. */
import type { Account, AccountFamily } from './account.ts'
import { API_KEYS } from './api-keys.ts'
import { FAR_FUTURE_MS, type Sentinel } from './sentinels.ts'

export interface SandboxLogin {
  readonly account: Account
  readonly sentinel: Sentinel
}

interface SentinelFile {
  /** Its file name in the tmpfs, on its way into the sandbox. */
  readonly name: string
  /** Relative to the sandbox home. */
  readonly path: string
  readonly content: string
  readonly mode: 0o400
}

export interface SentinelFiles {
  readonly files: readonly SentinelFile[]
  /** Sentinels are not secrets outside their sandbox. Real credentials are never passed in variables. */
  readonly environment: Readonly<Record<string, string>>
}

/** Returns the accounts that a sandbox gets: the first of each family. */
export function selectPreferredAccounts(accounts: readonly Account[]): readonly Account[] {
  const families = new Set<AccountFamily>()
  return accounts.filter(({ family }) => !families.has(family) && families.add(family))
}

/** Expects one login of each family, as `selectPreferredAccounts` returns them. */
export function planSentinelFiles(logins: readonly SandboxLogin[]): SentinelFiles {
  const files: SentinelFile[] = []
  const environment: Record<string, string> = {}
  const opencode: Record<string, unknown> = {}
  for (const login of logins) {
    const file = fileFor(login)
    if (file !== undefined) files.push({ name: passingName(login.account.family), ...file, mode: 0o400 })
    Object.assign(environment, variablesFor(login))
    const name = OPENCODE_NAMES[login.account.family]
    if (name !== undefined && login.account.kind === 'api_key')
      opencode[name] = { type: 'api', key: login.sentinel.presented }
  }
  if (Object.keys(opencode).length > 0)
    files.push({ name: 'opencode_token', path: OPENCODE_FILE, content: json(opencode), mode: 0o400 })
  return { files, environment }
}

/** Returns the file of an account for `craik accounts`. */
export function loginFileOf(account: Account): string {
  const login = { account, sentinel: { presented: '', refreshToken: '', idToken: '', accountNumber: '' } }
  const { files, environment } = planSentinelFiles([login])
  return [...files.map(({ path }) => `~/${path}`), ...Object.keys(environment)].join(', ')
}

/** The names match those in the sandbox's seed. */
function passingName(family: AccountFamily): string {
  return family === 'github' ? 'gh_token' : `${family}_token`
}

/** Every path that a login can be written to. */
export const LOGIN_FILES: Readonly<Record<string, string>> = {
  anthropic_token: '.claude/.credentials.json',
  openai_token: '.codex/auth.json',
  gemini_token: '.gemini/oauth_creds.json',
  gemini_earlier_token: '.config/gemini/credentials.json',
  kimi_token: '.kimi-code/credentials/kimi-code.json',
  opencode_token: '.local/share/opencode/auth.json',
  gh_token: '.config/gh/hosts.yml',
}

const OPENCODE_FILE = '.local/share/opencode/auth.json'
const OPENCODE_NAMES: Partial<Record<AccountFamily, string>> = {
  openrouter: 'openrouter',
  anthropic: 'anthropic',
  openai: 'openai',
  gemini: 'google',
  kimi: 'kimi-for-coding',
}

function fileFor({ account, sentinel }: SandboxLogin): Pick<SentinelFile, 'path' | 'content'> | undefined {
  const { family, kind, scopes, plan } = account
  const { presented, refreshToken, idToken, accountNumber } = sentinel
  if (family === 'github') return { path: '.config/gh/hosts.yml', content: hostsFile(account, presented) }
  if (kind === 'api_key') {
    if (family !== 'openai') return undefined
    return { path: '.codex/auth.json', content: json({ auth_mode: 'apikey', OPENAI_API_KEY: presented }) }
  }
  switch (family) {
    case 'anthropic': {
      const claudeAiOauth = {
        accessToken: presented,
        refreshToken,
        expiresAt: FAR_FUTURE_MS,
        scopes: scopes ?? ['user:inference', 'user:profile'],
        ...(plan !== undefined && { subscriptionType: plan }),
      }
      return { path: '.claude/.credentials.json', content: json({ claudeAiOauth }) }
    }
    case 'openai': {
      const tokens = {
        id_token: idToken,
        access_token: presented,
        refresh_token: refreshToken,
        account_id: accountNumber,
      }
      const lastRefresh = new Date(FAR_FUTURE_MS).toISOString()
      const content = { auth_mode: 'chatgpt', OPENAI_API_KEY: null, tokens, last_refresh: lastRefresh }
      return { path: '.codex/auth.json', content: json(content) }
    }
    case 'gemini': {
      const content = {
        access_token: presented,
        refresh_token: refreshToken,
        token_type: 'Bearer',
        scope: (scopes ?? []).join(' '),
        expiry_date: FAR_FUTURE_MS,
      }
      return { path: '.gemini/oauth_creds.json', content: json(content) }
    }
    case 'kimi': {
      const content = {
        access_token: presented,
        refresh_token: refreshToken,
        expires_at: FAR_FUTURE_MS / 1000,
        scope: '',
        token_type: 'Bearer',
        expires_in: 2_000_000_000,
      }
      return { path: '.kimi-code/credentials/kimi-code.json', content: json(content) }
    }
    case 'openrouter':
      return undefined
  }
}

/**
 * Gemini CLI validates a token from its file with Google, which a sandbox cannot reach. It uses a token from these
 * variables without validation. The harness sets the address (`CODE_ASSIST_ENDPOINT`).
 */
function variablesFor({ account, sentinel }: SandboxLogin): Record<string, string> {
  // Kimi Code derives its file's name from the address. With the gateway's address it would find no file.
  if (account.family === 'kimi')
    return { KIMI_API_KEY: sentinel.presented, KIMI_MODEL_API_KEY: sentinel.presented }
  if (account.kind === 'oauth')
    return account.family === 'gemini'
      ? { GOOGLE_GENAI_USE_GCA: 'true', GOOGLE_CLOUD_ACCESS_TOKEN: sentinel.presented }
      : {}
  const name = API_KEYS.find(({ family }) => family === account.family)?.name
  return name === undefined ? {} : { [name]: sentinel.presented }
}

/** Returns the file in which gh stores a login. */
export function hostsFile({ gitBaseUrl, who }: Account, token: string): string {
  const host = gitBaseUrl === undefined ? 'github.com' : new URL(gitBaseUrl).host
  const user = who ?? 'sandbox'
  const lines = [`oauth_token: ${token}`, 'git_protocol: https', `user: ${JSON.stringify(user)}`]
  return `${JSON.stringify(host)}:\n${lines.map((line) => `    ${line}\n`).join('')}`
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
