/** Codex's `auth.json`: the tokens of a ChatGPT login, and possibly an API key. */
import { z } from 'zod'
import { claimsOf, expiryOf } from '../jwt.ts'
import { bearer, type LoginDocument, type LoginFormat, optionalToken } from './format.ts'

/** The program's public client id at its issuer. */
const CLIENT_ID = 'app_EMoamEEZ73f0CkXaXp7hrann'

const file = z.looseObject({
  auth_mode: z.string().max(100).nullish(),
  OPENAI_API_KEY: optionalToken,
  tokens: z
    .looseObject({
      id_token: optionalToken,
      access_token: optionalToken,
      refresh_token: optionalToken,
      account_id: z.string().max(200).nullish(),
    })
    .nullish(),
})

const OPENAI = 'https://api.openai.com/auth'

export const codexFormat: LoginFormat = {
  loginCommand: 'codex login',
  tokenUrl: 'https://auth.openai.com/oauth/token',
  tokens(document) {
    const found = file.parse(document).tokens
    if (found?.access_token === undefined) return undefined
    const identity = claimsOf(found.id_token)
    return {
      accessToken: found.access_token,
      refreshToken: found.refresh_token,
      expiresAtMs: expiryOf(found.access_token),
      who: identity?.email,
      plan: identity?.[OPENAI]?.chatgpt_plan_type,
      upstreamAccount: found.account_id || identity?.[OPENAI]?.chatgpt_account_id,
    }
  },
  merge(document, answer, nowMs) {
    const old = document.tokens as Record<string, unknown>
    return {
      ...document,
      tokens: {
        ...old,
        access_token: answer.access_token,
        ...(answer.refresh_token !== undefined && { refresh_token: answer.refresh_token }),
        ...(answer.id_token !== undefined && { id_token: answer.id_token }),
      },
      last_refresh: new Date(nowMs).toISOString(),
    }
  },
  request: ({ refreshToken }, clientId = CLIENT_ID) => ({
    contentType: 'application/json',
    fields: { client_id: clientId, grant_type: 'refresh_token', refresh_token: refreshToken },
  }),
  headers: (tokens) => ({
    ...bearer(tokens),
    ...(tokens.upstreamAccount && { 'chatgpt-account-id': tokens.upstreamAccount }),
  }),
  mergedHeaders: {},
}

/** Returns the API key in the file, and whether Codex itself uses the key. */
export function codexKey(
  document: LoginDocument,
): { readonly key: string; readonly preferred: boolean } | undefined {
  const { OPENAI_API_KEY: key, auth_mode: mode } = file.parse(document)
  return key === undefined ? undefined : { key, preferred: mode?.toLowerCase() === 'apikey' }
}
