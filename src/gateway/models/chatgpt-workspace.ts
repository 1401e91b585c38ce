/**
 * The ChatGPT workspace of a sandbox's login, which Codex requests before its terminal starts. The gateway answers
 * without an upstream request. The response contains only values that the caller sent.
 */
import type { Account } from '../../accounts/account.ts'
import { claimsOf } from '../../accounts/jwt.ts'
import type { GatewayCaller } from '../caller.ts'
import { findAccount } from './client-credential.ts'

export const WORKSPACE_PATH = '/backend-api/wham/accounts/check'

/**
 * Codex accepts only an HTTPS origin. It continues to call the address in its settings. A call to this origin would
 * fail, because names under `invalid` do not exist.
 */
const ORIGIN = 'https://craik.invalid'

/** Account ids are at most this long, and need no escaping. */
const NUMBER = /^[\w-]{1,200}$/

/** Returns `undefined` when the credential or the account id that was sent is not the caller's own. */
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
  // The sandbox has the real login, possibly an older one than the host. Returning its account id grants no access.
  if (caller.credentials === 'forward')
    return logins.length > 0 && presented.length > 0 && NUMBER.test(accountNumber)
  const account = findAccount(presented, logins, caller)
  const sentinel = account && caller.sentinelFor(account.id)
  return claimsOf(sentinel)?.['https://api.openai.com/auth']?.chatgpt_account_id === accountNumber
}
