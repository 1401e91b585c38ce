/** Returns every failure as JSON: what failed, the code and a hint. It contains no internal details. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { z } from 'zod'
import { CraikError, ERRORS } from '../errors.ts'
import type { ErrorBody } from './api/bodies.ts'

export function errorBody(error: CraikError): ErrorBody {
  const retryAfterMs = error.details?.retry_after_ms
  return {
    error: error.message,
    code: error.code,
    hint: error.hint,
    ...(error.details !== undefined && { details: error.details }),
    ...(typeof retryAfterMs === 'number' && { retry_after_ms: retryAfterMs }),
  }
}

export function statusOfError(error: CraikError): number {
  return ERRORS[error.code].status
}

/** Reports an unexpected error only as internal, because its message could contain anything. */
export function asCraikError(error: unknown): CraikError {
  if (error instanceof CraikError) return error
  const { code, statusCode, message } = error as { code?: string; statusCode?: number; message?: string }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new CraikError('too_large', 'the request body is larger than its limit')
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE')
    return new CraikError('usage', 'the request body has an unsupported content type', {
      hint: 'send application/json, or application/octet-stream for bytes',
    })
  if (code?.startsWith('FST_ERR_') && statusCode !== undefined && statusCode < 500)
    return new CraikError('usage', `cannot parse the request: ${message ?? code}`)
  if (error instanceof SyntaxError) return new CraikError('usage', 'the request body is not valid JSON')
  return new CraikError('internal', 'internal error', {
    hint: 'see the details:  craik supervisor logs',
    cause: error,
  })
}

/** The message names the first invalid field. The details list up to ten. */
export function invalidRequest(error: z.ZodError, what: string): CraikError {
  const issues = error.issues.slice(0, 10).map((issue) => ({
    path: issue.path.join('.'),
    message: issue.message,
  }))
  const [first] = issues
  const location = first?.path ? `${what} ${first.path}` : what
  return new CraikError('usage', `${location}: ${first?.message ?? 'is not valid'}`, {
    hint: 'see the fields of each request in docs/reference/operator-api.md',
    details: { issues },
  })
}

export function shuttingDownError(): CraikError {
  return new CraikError('supervisor_unreachable', 'the supervisor is shutting down', {
    hint: 'try again: the next request starts a new supervisor',
    details: { draining: true, retry_after_ms: 100 },
  })
}

/** Writes a response outside Fastify: on an upgraded socket, or before a route was found. */
export function writeError(response: ServerResponse<IncomingMessage>, error: CraikError): void {
  const text = JSON.stringify(errorBody(error))
  response.writeHead(statusOfError(error), {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  })
  response.end(text)
}
