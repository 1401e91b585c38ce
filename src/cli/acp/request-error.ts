/** Converts errors of Craik to errors of the protocol: what failed, and the next command to type. */
import { RequestError } from '@agentclientprotocol/sdk'
import { CraikError, type ErrorCode } from '../../errors.ts'

/**
 * The protocol's codes: invalid parameters, authentication required, resource not found. Every other error is an
 * internal error.
 */
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

/** Runs a request handler and converts its errors to errors of the protocol. */
export async function withRequestErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw requestErrorOf(error)
  }
}
