/** Which harness has a login on this machine, looked at before anything is started: two of them would wait for ever. */
import type { Account } from '../../accounts/account.ts'
import type { ProbeProblem } from '../../accounts/probe-result.ts'
import { CraikError } from '../../errors.ts'
import { HARNESSES } from '../../harnesses/all.ts'
import { type Harness, type HarnessLogin, loginFor } from '../../harnesses/harness.ts'
import type { CliContext } from '../context.ts'
import { hostLogins } from '../host-logins.ts'

export interface HarnessLogins {
  /** What a sandbox would get, as it is now. */
  readonly accounts: readonly Account[]
  /** What seems to be a login, and why it is not used; looked up only when that is to be told. */
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

/** The login that the harness works with; undefined: it needs none. */
export async function requireHarnessLogin(
  harness: Harness,
  { accounts, problems }: HarnessLogins,
): Promise<HarnessLogin | undefined> {
  if (harness.logins.length === 0) return undefined
  const login = loginFor(harness, accounts)
  if (login !== undefined) return login
  const { name, logIn, keyName } = harness
  const key = keyName === undefined ? '' : `   or store a key:  craik secret set ${keyName}`
  // Its own program keeps it under the same name.
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

/** A call that was refused for the login: whether that has ended is known by now, and says more. */
export async function moreOfLogin(context: CliContext, harness: Harness, error: unknown): Promise<unknown> {
  if (!(error instanceof CraikError) || error.code !== 'no_login') return error
  try {
    await requireHarnessLogin(harness, await readHarnessLogins(context))
    return error
  } catch (known) {
    return known instanceof CraikError && known.code === 'no_login' ? known : error
  }
}

/** Without a name, the first that has a login. */
export function firstWithLogin({ accounts }: HarnessLogins): Harness {
  const found = Object.values(HARNESSES).find(
    (harness) => harness.logins.length > 0 && loginFor(harness, accounts) !== undefined,
  )
  if (found !== undefined) return found
  throw new CraikError('no_login', 'no agent has a login on this machine', {
    hint: 'log in to one on the host, such as  claude /login   then check:  craik accounts',
  })
}
