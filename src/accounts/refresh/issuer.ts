/**
 * Requests new tokens from an issuer: one request over verified TLS, with limits on time and size, without redirects.
 */
import { Agent, request } from 'undici'
import { z } from 'zod'
import { codeOfFailure, tryParseJson } from '../../lib/external-response.ts'
import { type IssuerAnswer, issuerAnswer, type TokenRequest } from '../logins/format.ts'

const TIMEOUT_MS = 30_000
const MAX_ANSWER_BYTES = 256 * 1024

export type IssuerReply =
  | { readonly kind: 'tokens'; readonly answer: IssuerAnswer }
  /** The issuer rejects this refresh token permanently. */
  | { readonly kind: 'ended' }
  /** A later attempt may succeed. */
  | { readonly kind: 'failed'; readonly reason: string }

/** Error codes of issuers for a refresh token that was used, revoked or has expired. */
const ENDED: ReadonlySet<string> = new Set([
  'invalid_grant',
  'refresh_token_expired',
  'refresh_token_reused',
  'refresh_token_invalidated',
])

const refusal = z.looseObject({
  error: z
    .union([z.string(), z.looseObject({ code: z.string().nullish(), type: z.string().nullish() })])
    .nullish(),
})

export async function askIssuer(
  url: string,
  { contentType, fields }: TokenRequest,
  authorities: readonly string[] | undefined,
  until: AbortSignal,
): Promise<IssuerReply> {
  const agent = new Agent({
    connect: { timeout: TIMEOUT_MS, ...(authorities && { ca: [...authorities] }) },
    maxResponseSize: MAX_ANSWER_BYTES,
  })
  try {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      dispatcher: agent,
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      signal: AbortSignal.any([until, AbortSignal.timeout(TIMEOUT_MS)]),
      headers: { 'content-type': contentType, accept: 'application/json' },
      body:
        contentType === 'application/json' ? JSON.stringify(fields) : new URLSearchParams(fields).toString(),
    })
    return parseReply(statusCode, await body.text())
  } catch (error) {
    return { kind: 'failed', reason: `the issuer could not be reached (${codeOfFailure(error)})` }
  } finally {
    await agent.destroy()
  }
}

function parseReply(status: number, text: string): IssuerReply {
  const content = tryParseJson(text)
  if (status === 200) {
    const answer = issuerAnswer.safeParse(content)
    if (answer.success) return { kind: 'tokens', answer: answer.data }
    return { kind: 'failed', reason: 'the issuer’s answer is not one that was expected' }
  }
  const { error } = refusal.safeParse(content).data ?? {}
  const named = typeof error === 'string' ? [error] : [error?.code, error?.type]
  if (status < 500 && (status === 401 || named.some((name) => ENDED.has(name ?? ''))))
    return { kind: 'ended' }
  return { kind: 'failed', reason: `the issuer answered ${status}` }
}
