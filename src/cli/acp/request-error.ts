/** Our errors in the protocol's words: what failed, and the next command to type. */
import { RequestError } from '@agentclientprotocol/sdk'
import { CraikError, type ErrorCode } from '../../errors.ts'

/** The protocol's own: invalid parameters, log in first, no such session; anything else is an internal error. */
const CODES: Partial<Record<ErrorCode, number>> = {
  usage: -32602,
  no_login: -32000,
  login_required: -32000,
  not_found: -32002,
}
const INTERNAL = -32603

function requestErrorOf(error: unknown): RequestError {
  if (error instanceof RequestError) return error
  if (!(error instanceof CraikError))
    return new RequestError(INTERNAL, error instanceof Error ? error.message : String(error))
  const { code, message, hint } = error
  const words = hint === undefined ? message : `${message} (${hint})`
  return new RequestError(CODES[code] ?? INTERNAL, words, { code, ...(hint !== undefined && { hint }) })
}

/** A handler whose errors are the protocol's. */
export async function withRequestErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw requestErrorOf(error)
  }
}
