/** Kimi Code's `credentials/kimi-code.json`. */
import { plainFormat } from './flat.ts'

/** The program's public client id at its issuer. */
const CLIENT_ID = '17e5f671-d194-4dfb-9706-5516cb48c098'

export const kimiFormat = plainFormat({
  loginCommand: 'kimi login',
  tokenUrl: 'https://auth.kimi.com/api/oauth/token',
  clientId: CLIENT_ID,
  expiry: { field: 'expires_at', unitMs: 1000, keepsSpan: true },
})
