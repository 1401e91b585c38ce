/** The error object that OpenAI's dialects share. */
import type { DialectError } from './dialect.ts'

const TYPES: Readonly<Record<number, readonly [type: string, code: string]>> = {
  400: ['invalid_request_error', 'invalid_request'],
  401: ['authentication_error', 'invalid_api_key'],
  402: ['insufficient_quota', 'insufficient_quota'],
  403: ['permission_error', 'permission_denied'],
  404: ['invalid_request_error', 'not_found'],
  413: ['invalid_request_error', 'request_too_large'],
  429: ['rate_limit_error', 'rate_limit_exceeded'],
  503: ['server_error', 'server_is_overloaded'],
}

export function openaiProblem({ status, message, names = {} }: DialectError) {
  const [type, code] = TYPES[status] ?? ['server_error', 'server_error']
  return { message, type: names.type ?? type, param: null, code: names.code ?? code }
}
