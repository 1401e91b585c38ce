/** Selects the login sandbox of a command: from the profile, the options, the GitHub login, or the name of the user. */
import type { Command } from 'commander'
import type { Account } from '../../accounts/account.ts'
import type { HostLogins } from '../../accounts/broker.ts'
import { CraikError } from '../../errors.ts'
import type { IdentityCheck } from '../../login-sandbox/identity.ts'
import { loginFrom, sandboxNameOf } from '../../login-sandbox/login-names.ts'
import {
  type LoginSandboxSettings,
  loadSettings,
  type TypedOptions,
} from '../../login-sandbox/login-sandbox-settings.ts'
import { formatCommand } from '../../login-sandbox/next-commands.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { hostLogins } from '../host-logins.ts'

export interface SelectedSandbox {
  readonly settings: LoginSandboxSettings
  readonly login: string
  readonly sandboxName: string
  readonly logins: HostLogins
}

export const INBOX_HELP =
  'folder for saved conversations and outputs (default: $SANDBOX_INBOX_DIR, otherwise ~/inbox)'

export function addLoginOptions(command: Command): Command {
  return command
    .option(
      '--profile <name>',
      'profile with the settings of the sandbox (craik profile-list; default: $SANDBOX_PROFILE)',
    )
    .option(
      '--login <name>',
      'name of the login sandbox: octo for octo-sandbox (default: $SANDBOX_LOGIN, else your GitHub user name, else your user name)',
    )
}

export async function selectSandbox(context: CliContext, typed: TypedOptions): Promise<SelectedSandbox> {
  const settings = loadSettings(typed, context.environment, process.cwd())
  const logins = await hostLogins(context)
  const login = settings.login ?? (await findLogin(context, logins))
  return { settings, login, sandboxName: sandboxNameOf(login), logins }
}

/** The login that `gh` has stored is as reliable as a request to GitHub, and needs no network. */
async function findLogin(context: CliContext, logins: HostLogins): Promise<string> {
  const github = await githubAccount(context, logins)
  if (github?.who !== undefined) return loginFrom(github.who)
  const requested = await askGitHub(context, logins, github)
  return loginFrom(
    requested.kind === 'known' ? requested.identity.login : context.localUser.replace(/^[^:]*:/, ''),
  )
}

export async function githubAccount(
  { signal }: CliContext,
  logins: HostLogins,
): Promise<Account | undefined> {
  return (await logins.accounts(signal)).find(({ family }) => family === 'github')
}

export async function askGitHub(
  { signal }: CliContext,
  logins: HostLogins,
  account: Account | undefined,
): Promise<IdentityCheck> {
  const { fetchIdentity: askIdentity } = await import('../../login-sandbox/identity.ts')
  return askIdentity(account, logins, signal)
}

/** Returns undefined if the sandbox does not exist. */
export async function sandboxOf(
  { signal }: CliContext,
  client: ApiClient,
  { sandboxName }: Pick<SelectedSandbox, 'sandboxName'>,
): Promise<SandboxBody | undefined> {
  try {
    return await client.sandboxes.get(sandboxName, { signal })
  } catch (error) {
    if (error instanceof CraikError && error.code === 'not_found') return undefined
    throw error
  }
}

/** Throws if the sandbox does not run. */
export async function runningSandboxOf(
  context: CliContext,
  client: ApiClient,
  chosen: SelectedSandbox,
): Promise<SandboxBody> {
  const sandbox = await sandboxOf(context, client, chosen)
  if (sandbox?.state === 'running') return sandbox
  const state = sandbox === undefined ? 'does not exist' : `is ${sandbox.state}`
  throw new CraikError('not_up', `${chosen.sandboxName} ${state}`, {
    hint: `start it:  ${formatCommand('up', chosen.settings)}`,
  })
}
