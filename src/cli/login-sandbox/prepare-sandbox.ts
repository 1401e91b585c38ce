/** Makes a login's sandbox ready inside, each time that it is entered from outside. */
import type { Account } from '../../accounts/account.ts'
import { LOGIN_FILES } from '../../accounts/sentinel-files.ts'
import { CraikError } from '../../errors.ts'
import type { IdentityCheck } from '../../login-sandbox/identity.ts'
import { setUpScript } from '../../login-sandbox/keep/set-up-script.ts'
import type { LoginSandboxSettings } from '../../login-sandbox/login-sandbox-settings.ts'
import { craikFor } from '../../login-sandbox/next-commands.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'
import { setUpHarnesses } from '../harness/set-up.ts'
import { agentSettings, runScript } from './entry-environment.ts'

/** Nobody's: a commit under it is seen to be of a sandbox without a name. */
const NEUTRAL = { name: 'Craik sandbox', email: 'sandbox@craik.invalid' } as const

export interface LoginSandboxDeps {
  readonly author: { readonly name: string; readonly email: string }
  readonly accounts: readonly Account[]
}

/** What could not be done, for a person. */
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

/** Of the account that GitHub names, unless somebody said otherwise. */
export function authorFor(
  { author }: Pick<LoginSandboxSettings, 'author'>,
  github: IdentityCheck | undefined,
): { readonly name: string; readonly email: string } {
  const known = github?.kind === 'known' ? github.identity : NEUTRAL
  return { name: author.name ?? known.name, email: author.email ?? known.email }
}

/** The real ones do not outlive the time that they were lent for, also in what persists. */
export async function forgetForwarded(
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
      hint: `remove the sandbox with its volumes:  ${craikFor('nuke', settings)}`,
    })
}
