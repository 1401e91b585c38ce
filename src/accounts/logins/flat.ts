/** Logins with a file that contains the issuer’s response unchanged, plus the expiry time. */
import { z } from 'zod'
import { claimsOf } from '../jwt.ts'
import { bearer, expiryFrom, type LoginFormat, optionalToken } from './format.ts'

interface FlatLogin extends Pick<LoginFormat, 'loginCommand' | 'tokenUrl'> {
  readonly clientId: string
  /** Further fields that the issuer requires of the program. They identify no user. */
  readonly fields?: Readonly<Record<string, string>>
  readonly expiry: {
    readonly field: string
    readonly unitMs: 1 | 1000
    /** Whether the program also stores `expires_in` from the response. */
    readonly keepsSpan?: true
  }
}

const file = z.looseObject({
  access_token: optionalToken,
  refresh_token: optionalToken,
  id_token: optionalToken,
  scope: z.string().max(4_096).nullish(),
})

export function plainFormat({ loginCommand, tokenUrl, clientId, fields, expiry }: FlatLogin): LoginFormat {
  const { field, unitMs } = expiry
  const timed = z.looseObject({ [field]: z.number().nonnegative().nullish() })
  return {
    loginCommand,
    tokenUrl,
    headers: bearer,
    mergedHeaders: {},
    tokens(document) {
      const found = file.parse(document)
      const end = timed.parse(document)[field]
      // A program may keep a login without tokens after its issuer refused it.
      if (found.access_token === undefined) return undefined
      return {
        accessToken: found.access_token,
        refreshToken: found.refresh_token,
        // The program writes zero when it knows no expiry.
        expiresAtMs: end ? Math.trunc(end * unitMs) : undefined,
        who: claimsOf(found.id_token)?.email,
        scopes: found.scope?.split(' ').filter((scope) => scope !== ''),
      }
    },
    merge(document, answer, nowMs) {
      const { access_token, refresh_token, id_token, scope, token_type, expires_in } = answer
      const expiresAtMs = expiryFrom(answer, nowMs)
      return {
        ...document,
        access_token,
        // An issuer that does not rotate the refresh token leaves it out of its response.
        ...(refresh_token !== undefined && { refresh_token }),
        ...(id_token !== undefined && { id_token }),
        ...(scope !== undefined && { scope }),
        ...(token_type !== undefined && { token_type }),
        ...(expiresAtMs !== undefined && { [field]: Math.trunc(expiresAtMs / unitMs) }),
        ...(expiresAtMs !== undefined && expiry.keepsSpan && { expires_in }),
      }
    },
    request: ({ refreshToken }, client_id = clientId) => ({
      contentType: 'application/x-www-form-urlencoded',
      fields: { client_id, ...fields, grant_type: 'refresh_token', refresh_token: refreshToken },
    }),
  }
}
