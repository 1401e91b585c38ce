/**
 * Selects what a sandbox gets of the host's logins: placeholder credentials that only the gateway accepts, or the real
 * ones with `forward`.
 */
import type { Account } from '../accounts/account.ts'
import type { HostLogins } from '../accounts/broker.ts'
import { LOGIN_FILES, planSentinelFiles, selectPreferredAccounts } from '../accounts/sentinel-files.ts'
import type { Sentinels } from '../accounts/sentinels.ts'
import { CraikError } from '../errors.ts'
import { siteOf } from '../gateway/github/target.ts'
import type {
  LoginOwner,
  LoginSetup,
  SandboxAccount,
  SandboxLogins,
} from '../sandboxes/manager/manager-options.ts'
import { INSIDE, type LoginFile } from '../sidecar/protocol.ts'

export interface SandboxLoginsParts {
  readonly broker: HostLogins
  readonly sentinels: Sentinels
  readonly setApiKeys: SandboxLogins['offer']
  /** Returns the accounts of the last probe. */
  readonly accounts: () => readonly Account[]
  /** Returns whether a sandbox may reach the issuer of a login, so that a program there can verify the login. */
  readonly mayReach: (sandbox: LoginOwner, host: string) => Promise<boolean>
}

/** Gemini's program verifies its login with the issuer at each start, so a file alone does not work. */
const GEMINI_ISSUER = 'oauth2.googleapis.com'

export function sandboxLogins(parts: SandboxLoginsParts): SandboxLogins {
  return {
    async files(record, until) {
      const accounts = selectPreferredAccounts(await parts.broker.accounts(until))
      const provided =
        record.spec.credentials === 'forward'
          ? await realFiles(parts, record, accounts, until)
          : {
              files: listPlaceholders(parts, record, accounts),
              accounts: accounts.map(toSandboxAccount),
              leftOut: [],
            }
      const { files } = provided
      const places = new Set(files.map(({ to }) => to))
      const gone = Object.entries(LOGIN_FILES).flatMap(([name, to]) =>
        places.has(to) ? [] : [{ name, to, content: null }],
      )
      return { ...provided, files: [...files, ...gone] }
    },
    environment(record, gatewayPort) {
      if (record.spec.credentials === 'none') return {}
      return environmentFor(parts, record, `http://127.0.0.1:${gatewayPort}`)
    },
    offer: parts.setApiKeys,
  }
}

function listPlaceholders(
  { sentinels }: SandboxLoginsParts,
  { id }: LoginOwner,
  accounts: readonly Account[],
): readonly LoginFile[] {
  const logins = accounts.map((account) => ({ account, sentinel: sentinels.for(id, account) }))
  const { files } = planSentinelFiles(logins)
  const loginFiles = files.map(({ name, path, content }) => ({ name, to: path, content }))
  return accounts.some(({ family }) => family === 'github') ? [...loginFiles, GH_SETTINGS] : loginFiles
}

/** `gh` cannot use a proxy for its GitHub host alone, but it can send all requests through a Unix socket. */
const GH_SETTINGS: LoginFile = {
  name: 'gh_settings',
  to: '.config/gh/config.yml',
  content: `version: "1"\ngit_protocol: https\nhttp_unix_socket: ${INSIDE.gatewaySocket}\n`,
  setting: true,
}

async function realFiles(
  { broker, mayReach }: SandboxLoginsParts,
  record: LoginOwner,
  accounts: readonly Account[],
  until: AbortSignal,
): Promise<LoginSetup> {
  const files: LoginFile[] = []
  const provided: SandboxAccount[] = []
  const leftOut: string[] = []
  for (const account of accounts) {
    if (account.id === 'gemini' && !(await mayReach(record, GEMINI_ISSUER))) {
      leftOut.push(geminiLeftOut(record.id))
      continue
    }
    const login = await broker.forward(account.id, until).catch((error) => {
      // The login is not in a file, for example because it is a key. Then there is no file to forward.
      if (error instanceof CraikError && error.code === 'unavailable') return undefined
      throw error
    })
    if (login === undefined) {
      leftOut.push(`cannot forward ${account.id}: its login is not in a file`)
      continue
    }
    files.push({ name: login.tmpfsName, to: login.path, content: login.content.toString() })
    login.content.fill(0)
    provided.push(toSandboxAccount(account))
  }
  return { files, accounts: provided, leftOut }
}

function toSandboxAccount({ id, who }: Account): SandboxAccount {
  return { id, who: who ?? null }
}

function geminiLeftOut(id: string): string {
  return (
    `cannot forward the Gemini login: its program checks it at ${GEMINI_ISSUER}, which is not allowed ` +
    `(craik egress allow ${GEMINI_ISSUER} --sandbox ${id}, then craik sandbox logins ${id})`
  )
}

/**
 * Returns the variables that name the gateway, and placeholder credentials for programs that read a key from no file.
 */
function environmentFor(
  { sentinels, accounts }: SandboxLoginsParts,
  { id, spec }: LoginOwner,
  gateway: string,
): Record<string, string> {
  const chosen = selectPreferredAccounts(accounts())
  const logins = chosen.map((account) => ({ account, sentinel: sentinels.for(id, account) }))
  const github = chosen.find(({ family }) => family === 'github')
  return {
    ANTHROPIC_BASE_URL: gateway,
    OPENAI_BASE_URL: `${gateway}/v1`,
    GOOGLE_GEMINI_BASE_URL: gateway,
    CODE_ASSIST_ENDPOINT: gateway,
    CODEX_REFRESH_TOKEN_URL_OVERRIDE: `${gateway}/oauth/token`,
    ...(spec.credentials === 'broker' && planSentinelFiles(logins).environment),
    ...(github && gitVariables(gateway, github)),
  }
}

/** Makes git use the gateway for every form in which a URL can name a repository of that site. */
function gitVariables(gateway: string, account: Account): Record<string, string> {
  const { host, origin } = siteOf(account)
  const name = `url.${gateway}/git/${host}/.insteadOf`
  const ways = [`${origin}/`, `git@${host}:`, `ssh://git@${host}/`]
  return {
    GIT_CONFIG_COUNT: String(ways.length),
    ...Object.fromEntries(
      ways.flatMap((way, at) => [
        [`GIT_CONFIG_KEY_${at}`, name],
        [`GIT_CONFIG_VALUE_${at}`, way],
      ]),
    ),
  }
}
