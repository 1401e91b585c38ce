/** Calls that are refused because a file of `config/` cannot be used, or changed while they were made. */
import type { Account, Credential } from '../accounts/account.ts'
import { ACCOUNTS_FILE } from '../accounts/overrides.ts'
import { CraikError } from '../errors.ts'

/** Whether the error says which file of `config/` is at fault. */
export function isConfigFault(error: unknown): boolean {
  return fileOf(error) !== undefined
}

/** The message for a client in a sandbox: it names the file and repeats nothing of its content. */
export function faultMessage(error: unknown): string {
  const file = fileOf(error)
  return file === undefined
    ? 'the call failed because of an internal error on the host; check there:  craik supervisor logs'
    : `the call was refused: ${file} on the host is invalid or has just changed; check there:  craik accounts`
}

/** Throws if the account's address changed since the call was decided: the credential is for the new one. */
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
