/** Reads a token's claims without verifying them. They serve for display and scheduling, never for trust. */
import { z } from 'zod'

const MAX_TOKEN_LENGTH = 64 * 1024

const claims = z.looseObject({
  exp: z.number().optional().catch(undefined),
  email: z.string().max(320).optional().catch(undefined),
  'https://api.openai.com/auth': z
    .looseObject({
      chatgpt_account_id: z.string().max(200).optional().catch(undefined),
      chatgpt_plan_type: z.string().max(100).optional().catch(undefined),
    })
    .optional()
    .catch(undefined),
})

export type Claims = z.infer<typeof claims>

/** Returns `undefined` for a value that is not a JWT. */
export function claimsOf(token: string | undefined): Claims | undefined {
  if (token === undefined || token.length > MAX_TOKEN_LENGTH) return undefined
  const [, payload, signature] = token.split('.')
  if (payload === undefined || signature === undefined) return undefined
  try {
    return claims.parse(JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')))
  } catch {
    return undefined
  }
}

export function expiryOf(token: string | undefined): number | undefined {
  const exp = claimsOf(token)?.exp
  return exp === undefined || !Number.isSafeInteger(Math.trunc(exp * 1000))
    ? undefined
    : Math.trunc(exp * 1000)
}
