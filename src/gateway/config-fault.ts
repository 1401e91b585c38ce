/** Calls that are refused because a file of `config/` is invalid, or changed during the call. */
import type { Account, Credential } from '../accounts/account.ts'
import { ACCOUNTS_FILE } from '../accounts/overrides.ts'
import { CraikError } from '../errors.ts'

/** Returns whether the error blames a file of `config/`. */
export function isConfigFault(error: unknown): boolean {
  return fileOf(error) !== undefined
}

/** Returns the message for a client in a sandbox. It names the file and repeats nothing of its content. */
export function faultMessage(error: unknown): string {
  const file = fileOf(error)
  return file === undefined
    ? 'the call failed because of an internal error on the host; check there:  craik supervisor logs'
    : `the call was refused: ${file} on the host is invalid or has just changed; check there:  craik accounts`
}

/** Throws if the account's address changed after the decision, because the credential is for the new address. */
export function sameAddress(account: Account, credential: Credential): Credential {
  if (credential.baseUrl === account.baseUrl) return credential
  const file = `config/${ACCOUNTS_FILE}`
  throw new CraikError('invalid_config', `${file}: the address of ${account.id} changed during a call`, {
    hint: 'retry the call',
    details: { file },
  })
}

function fileOf(error: unknown): string | undefined {
  if (!(error instanceof CraikError) || error.code !== 'invalid_config') return undefined
  const file = error.details?.file
  return typeof file === 'string' ? file : undefined
}
