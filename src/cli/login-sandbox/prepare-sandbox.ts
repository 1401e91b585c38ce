/** Prepares a login sandbox each time the user enters it from the host. */
import type { Account } from '../../accounts/account.ts'
import { LOGIN_FILES } from '../../accounts/sentinel-files.ts'
import { CraikError } from '../../errors.ts'
import type { IdentityCheck } from '../../login-sandbox/identity.ts'
import { setUpScript } from '../../login-sandbox/keep/set-up-script.ts'
import type { LoginSandboxSettings } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatCommand } from '../../login-sandbox/next-commands.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { setUpHarnesses } from '../harness/set-up.ts'
import { agentSettings, runScript } from './entry-environment.ts'

/** The author if none is known. It shows that a commit comes from a sandbox without an identity. */
const UNKNOWN_AUTHOR = { name: 'Craik sandbox', email: 'sandbox@craik.invalid' } as const

export interface LoginSandboxDeps {
  readonly author: { readonly name: string; readonly email: string }
  readonly accounts: readonly Account[]
}

/** Returns what could not be done, as notes for the user. */
export async function prepareInside(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  { author, accounts }: LoginSandboxDeps,
): Promise<readonly string[]> {
  const script = setUpScript({ home: INSIDE.home, git: author, settings: agentSettings(accounts) })
  const problem = await runScript(context, client, sandbox, script)
  await setUpHarnesses(context, client, sandbox)
  return problem === undefined ? [] : [`could not set up the whole home: ${problem}`]
}

/** Returns the identity of the GitHub account, unless the settings name another author. */
export function authorFor(
  { author }: Pick<LoginSandboxSettings, 'author'>,
  github: IdentityCheck | undefined,
): { readonly name: string; readonly email: string } {
  const known = github?.kind === 'known' ? github.identity : UNKNOWN_AUTHOR
  return { name: author.name ?? known.name, email: author.email ?? known.email }
}

/** Removes the real credentials when the sandbox stops, also from its volumes. */
export async function removeForwardedLogins(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  settings: LoginSandboxSettings,
): Promise<void> {
  if (sandbox.credentials !== 'forward') return
  const paths = Object.values(LOGIN_FILES).map((path) => `"$HOME"/${path}`)
  const problem = await runScript(context, client, sandbox, `rm -f -- ${paths.join(' ')}\n`)
  if (problem !== undefined)
    throw new CraikError('boundary_failed', `could not remove the logins in ${sandbox.name}: ${problem}`, {
      hint: `remove the sandbox with its volumes:  ${formatCommand('nuke', settings)}`,
    })
}
