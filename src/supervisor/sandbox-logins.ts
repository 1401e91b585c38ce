/** What a sandbox is given of the host's logins: stand-ins that only the gateway takes, or, if that was chosen, themselves. */
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
  readonly offer: SandboxLogins['offer']
  /** As they were seen last. */
  readonly accounts: () => readonly Account[]
  /** Whether what runs in a sandbox may reach the issuer of a login, so that a program there can check it. */
  readonly mayReach: (sandbox: LoginOwner, host: string) => Promise<boolean>
}

/** Gemini's program checks its login with its issuer each time it starts, so that a file alone is of no use. */
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
    offer: parts.offer,
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

/** `gh` takes no proxy for where it is logged in, and a socket for everything. */
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
      // In no file of its own, such as a key: then there is nothing that could be forwarded as it is.
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

/** Where programs find the gateway; what stands for a key, where a program reads it from no file. */
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
    ...(github && gitThrough(gateway, github)),
  }
}

/** Whatever way a repository of that site is named, git asks the gateway for it. */
function gitThrough(gateway: string, account: Account): Record<string, string> {
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
