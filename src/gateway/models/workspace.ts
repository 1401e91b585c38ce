/**
 * The ChatGPT workspace of a sandbox's login, which Codex asks for before its terminal starts. It is told here: nobody is asked,
 * and there is nothing in it that the caller did not say itself.
 */
import type { Account } from '../../accounts/account.ts'
import { claimsOf } from '../../accounts/jwt.ts'
import type { GatewayCaller } from '../caller.ts'
import { meantBy } from './presented.ts'

export const WORKSPACE_PATH = '/backend-api/wham/accounts/check'

/**
 * Codex takes only an HTTPS origin. It goes on asking the address in its settings; if it ever asked this one, it would reach nobody,
 * since names under `invalid` do not exist.
 */
const ORIGIN = 'https://craik.invalid'

/** As long as a number of an account is at most, and of nothing that would have to be spelled otherwise. */
const NUMBER = /^[\w-]{1,200}$/

/** Undefined: what was presented, or the account number that was sent along, is not this caller's own. */
export function workspaceBody(
  caller: Pick<GatewayCaller, 'credentials' | 'sentinelFor'>,
  accounts: readonly Account[],
  presented: readonly string[],
  accountNumber: string | string[] | undefined,
): string | undefined {
  const logins = accounts.filter(({ family, kind }) => family === 'openai' && kind === 'oauth')
  if (typeof accountNumber !== 'string' || !isOwn(caller, logins, presented, accountNumber)) return undefined
  return JSON.stringify({
    accounts: [
      { id: accountNumber, workspace_backend_origin: ORIGIN, account_routing_override: 'NO_CONSTRAINT' },
    ],
  })
}

function isOwn(
  caller: Pick<GatewayCaller, 'credentials' | 'sentinelFor'>,
  logins: readonly Account[],
  presented: readonly string[],
  accountNumber: string,
): boolean {
  // The real login is inside, maybe an older one than there is here: its number is told back, and opens nothing.
  if (caller.credentials === 'forward')
    return logins.length > 0 && presented.length > 0 && NUMBER.test(accountNumber)
  const account = meantBy(presented, logins, caller)
  const sentinel = account && caller.sentinelFor(account.id)
  return claimsOf(sentinel)?.['https://api.openai.com/auth']?.chatgpt_account_id === accountNumber
}
