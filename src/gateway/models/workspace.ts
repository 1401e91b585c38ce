/**
 * The ChatGPT workspace of a sandbox's own stand-in, which Codex asks for before its terminal starts. It is told here: nobody is
 * asked, and nothing of the real account is in it.
 */
import type { Account } from '../../accounts/account.ts'
import { claimsOf } from '../../accounts/jwt.ts'
import type { Caller } from '../caller.ts'
import { meantBy } from './presented.ts'

export const WORKSPACE_PATH = '/backend-api/wham/accounts/check'

/**
 * Codex takes only an HTTPS origin. It goes on asking the address in its settings; if it ever asked this one, it would reach nobody,
 * since names under `invalid` do not exist.
 */
const ORIGIN = 'https://craik.invalid'

/** Undefined: what was presented, or the account number that was sent along, is not this caller's own. */
export function workspaceBody(
  caller: Pick<Caller, 'sentinelFor'>,
  accounts: readonly Account[],
  presented: readonly string[],
  accountNumber: string | string[] | undefined,
): string | undefined {
  const logins = accounts.filter(({ family, kind }) => family === 'openai' && kind === 'oauth')
  const account = meantBy(presented, logins, caller)
  const sentinel = account && caller.sentinelFor(account.id)
  const own = claimsOf(sentinel)?.['https://api.openai.com/auth']?.chatgpt_account_id
  if (own === undefined || own !== accountNumber) return undefined
  return JSON.stringify({
    accounts: [{ id: own, workspace_backend_origin: ORIGIN, account_routing_override: 'NO_CONSTRAINT' }],
  })
}
