/** Claude Code's `.credentials.json`, with a subscription's tokens in `claudeAiOauth`. */
import { z } from 'zod'
import { bearer, expiryFrom, type LoginFormat, optionalToken } from './format.ts'

/** The program's public client id at its issuer. */
const CLIENT_ID = '9d1c250a-e61b-44d9-88ed-5944d1962f5e'
const DEFAULT_SCOPES = ['user:inference', 'user:profile']

const oauth = z.looseObject({
  accessToken: optionalToken,
  refreshToken: optionalToken,
  expiresAt: z.number().nonnegative().nullish(),
  scopes: z.array(z.string().max(200)).max(100).nullish(),
  subscriptionType: z.string().max(100).nullish(),
})
const file = z.looseObject({ claudeAiOauth: oauth.nullish() })

export const claudeCodeFormat: LoginFormat = {
  loginCommand: 'claude /login',
  tokenUrl: 'https://platform.claude.com/v1/oauth/token',
  tokens(document) {
    const found = file.parse(document).claudeAiOauth
    if (found?.accessToken === undefined) return undefined
    return {
      accessToken: found.accessToken,
      refreshToken: found.refreshToken,
      // The program writes zero when it knows no expiry.
      expiresAtMs: found.expiresAt ? Math.trunc(found.expiresAt) : undefined,
      who: undefined,
      plan: found.subscriptionType ?? undefined,
      scopes: found.scopes ?? undefined,
    }
  },
  merge(document, answer, nowMs) {
    const old = document.claudeAiOauth as Record<string, unknown>
    const expiresAt = expiryFrom(answer, nowMs)
    return {
      ...document,
      claudeAiOauth: {
        ...old,
        accessToken: answer.access_token,
        ...(answer.refresh_token !== undefined && { refreshToken: answer.refresh_token }),
        ...(expiresAt !== undefined && { expiresAt }),
        ...(answer.scope && { scopes: answer.scope.split(' ').filter((scope) => scope !== '') }),
      },
    }
  },
  request: ({ refreshToken, scopes }, clientId = CLIENT_ID) => ({
    contentType: 'application/json',
    fields: {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: clientId,
      scope: (scopes?.length ? scopes : DEFAULT_SCOPES).join(' '),
    },
  }),
  headers: bearer,
  mergedHeaders: { 'anthropic-beta': 'oauth-2025-04-20' },
}
