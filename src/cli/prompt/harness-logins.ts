/**
 * Finds the login of a harness on this host before anything starts, because two harnesses would wait forever without
 * one.
 */
import type { Account } from '../../accounts/account.ts'
import type { ProbeProblem } from '../../accounts/probe-result.ts'
import { CraikError } from '../../errors.ts'
import { HARNESSES } from '../../harnesses/all.ts'
import { type Harness, type HarnessLogin, loginFor } from '../../harnesses/harness.ts'
import type { CliContext } from '../context.ts'
import { hostLogins } from '../host-logins.ts'

export interface HarnessLogins {
  /** The logins that a sandbox would get now. */
  readonly accounts: readonly Account[]
  /**
   * Returns what looks like a login but cannot be used, with the reason. Only messages need this, so it is read on
   * demand.
   */
  problems(): Promise<readonly ProbeProblem[]>
}

export const NO_LOGINS: HarnessLogins = { accounts: [], problems: async () => [] }

export async function readHarnessLogins(context: CliContext): Promise<HarnessLogins> {
  const { selectPreferredAccounts } = await import('../../accounts/sentinel-files.ts')
  const logins = await hostLogins(context)
  return {
    accounts: selectPreferredAccounts(await logins.accounts(context.signal)),
    problems: () => logins.problems(context.signal),
  }
}

/** Returns the login that the harness uses, or undefined if it needs none. */
export async function requireHarnessLogin(
  harness: Harness,
  { accounts, problems }: HarnessLogins,
): Promise<HarnessLogin | undefined> {
  if (harness.logins.length === 0) return undefined
  const login = loginFor(harness, accounts)
  if (login !== undefined) return login
  const { name, loginCommand: logIn, keyName } = harness
  const key = keyName === undefined ? '' : `   or store a key:  craik secret set ${keyName}`
  // The harness's own program stores its login under the same name.
  const found = (await problems()).find(({ id }) => id === name)
  throw found === undefined
    ? new CraikError('no_login', `${name} has no login on this machine`, {
        hint: `log in on the host, then try again:  ${logIn}${key}`,
        details: { harness: name },
      })
    : new CraikError('no_login', `${name}: ${found.problem}`, {
        hint: `${found.hint}${key}`,
        details: { harness: name },
      })
}

/**
 * Replaces an error about a login with a more specific one: after the failed call, Craik may know that the login has
 * ended.
 */
export async function explainLoginError(
  context: CliContext,
  harness: Harness,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof CraikError) || error.code !== 'no_login') return error
  try {
    await requireHarnessLogin(harness, await readHarnessLogins(context))
    return error
  } catch (known) {
    return known instanceof CraikError && known.code === 'no_login' ? known : error
  }
}

/** Returns the first harness that has a login, for a command that names no harness. */
export function firstWithLogin({ accounts }: HarnessLogins): Harness {
  const found = Object.values(HARNESSES).find(
    (harness) => harness.logins.length > 0 && loginFor(harness, accounts) !== undefined,
  )
  if (found !== undefined) return found
  throw new CraikError('no_login', 'no agent has a login on this machine', {
    hint: 'log in to an agent on the host, such as  claude /login   then check:  craik accounts',
  })
}
