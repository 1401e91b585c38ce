/** Gemini CLI's `oauth_creds.json`: a Google login for Code Assist. */
import { plainFormat } from './flat.ts'

/**
 * Gemini CLI's own client id and secret, as published in its sources. Google's issuer requires both of an installed
 * application. Google does not treat this secret as one, because every copy of the program contains it.
 */
const CLIENT_ID = '681255809395-oo8ft2oprdrnp9e3aqf6av3hmdib135j.apps.googleusercontent.com'
const CLIENT_SECRET = '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'

export const geminiFormat = plainFormat({
  loginCommand: 'gemini   and choose “Login with Google”',
  tokenUrl: 'https://oauth2.googleapis.com/token',
  clientId: CLIENT_ID,
  fields: { client_secret: CLIENT_SECRET },
  expiry: { field: 'expiry_date', unitMs: 1 },
})
