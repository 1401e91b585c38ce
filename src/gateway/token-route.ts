/**
 * The token endpoint for programs in a sandbox that can be configured to use it. It returns the placeholders that the
 * program already has. Only the broker renews logins.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GatewayCaller } from './caller.ts'

/** The placeholders of an OpenAI login in a sandbox. */
export interface PlaceholderLogin {
  readonly presented: string
  readonly refreshToken: string
  readonly idToken: string
}

const PATH = '/oauth/token'
const BODY_BYTES = 64 * 1024
const BODY_MS = 10_000

export function isTokenRoute({ url = '', method }: IncomingMessage): boolean {
  return method === 'POST' && (url === PATH || url.startsWith(`${PATH}?`))
}

/** Ignores the request's content. The stream identifies the sandbox, which gets its own placeholders. */
export function answerToken(
  caller: GatewayCaller,
  request: IncomingMessage,
  response: ServerResponse,
  findPlaceholder: (sandboxId: string) => PlaceholderLogin | undefined,
): void {
  let bytes = 0
  const timer = setTimeout(() => request.destroy(), BODY_MS).unref()
  response.once('close', () => clearTimeout(timer))
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > BODY_BYTES) request.destroy()
  })
  request.once('end', () => {
    const own =
      caller.credentials === 'broker' && caller.sandboxId !== undefined
        ? findPlaceholder(caller.sandboxId)
        : undefined
    if (own === undefined) answer(response, 400, { error: 'invalid_grant', error_description: NONE })
    else
      answer(response, 200, {
        access_token: own.presented,
        refresh_token: own.refreshToken,
        id_token: own.idToken,
        token_type: 'Bearer',
        expires_in: EXPIRES_S,
      })
  })
}

const NONE = 'craik: the host has no login of this kind; check there:  craik accounts'
/** About three years, so that no program asks again soon. */
const EXPIRES_S = 100_000_000

function answer(response: ServerResponse, status: number, body: Readonly<Record<string, unknown>>): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(JSON.stringify(body))
}
