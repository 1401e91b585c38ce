/**
 * An issuer of tokens over TLS that rotates refresh tokens. It treats the reuse of an old one as theft, and then
 * revokes every token of that login. The same server has an API that requires an access token.
 */
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { selfSigned } from '../wire/certificate.ts'

export interface TokenPair {
  readonly access_token: string
  readonly refresh_token: string
  readonly expires_in: number
}

export interface LoginTerms {
  /** Whether access tokens contain their own expiry, as OpenAI's do. */
  readonly isJwt?: boolean
  /** The time until the access token expires. When it is not positive, the API refuses the token. */
  readonly leftMs?: number
}

export interface SeenRefresh {
  readonly contentType: string
  readonly fields: Readonly<Record<string, string>>
}

export interface Issuer extends AsyncDisposable {
  readonly tokenUrl: string
  readonly apiUrl: string
  /** The certificate to trust. */
  readonly authority: string
  readonly refreshes: readonly SeenRefresh[]
  /** The number of uses of an old refresh token. Each one revokes its login. */
  readonly reuses: number
  /** Creates a login. */
  login(how?: LoginTerms): TokenPair
  /** Makes the API refuse all access tokens issued so far. */
  expire(): void
  /** Makes the API refuse all access tokens but the newest ones, as if the others had expired. */
  expireAllBut(newest: number): void
  readonly round: number
  /** The delay of a response after the tokens were rotated. */
  delayMs: number
  /** Replaces every response, while it is set. */
  broken: { readonly status: number; readonly text: string } | undefined
  /** Whether refresh tokens change. Google's do not. */
  rotates: boolean
  expiresInS: number
  readonly isAlive: (accessToken: string) => boolean
  /** Every token issued so far, of either kind. */
  readonly issued: readonly string[]
}

interface Family {
  current: string
  revoked: boolean
  readonly isJwt: boolean
}

/** The round of an access token that the API never accepts. */
const OVER = -1

export async function startIssuer({ key, cert } = selfSigned(['127.0.0.1'])): Promise<Issuer> {
  const families = new Map<string, Family>()
  const accessTokens = new Map<string, { readonly family: Family; round: number }>()
  const refreshes: SeenRefresh[] = []
  const issued: string[] = []
  let reuses = 0
  let round = 0

  const grant = (family: Family, leftMs = issuer.expiresInS * 1000): TokenPair => {
    const made = family.isJwt ? jwt(Date.now() + leftMs) : `access-${randomBytes(24).toString('hex')}`
    accessTokens.set(made, { family, round: leftMs > 0 ? round : OVER })
    issued.push(made, family.current)
    return { access_token: made, refresh_token: family.current, expires_in: issuer.expiresInS }
  }
  const rotate = (token: string): TokenPair | undefined => {
    const family = families.get(token)
    if (family === undefined || family.revoked) return undefined
    if (family.current !== token) {
      reuses++
      family.revoked = true
      return undefined
    }
    if (issuer.rotates) {
      family.current = newRefreshToken()
      families.set(family.current, family)
    }
    return grant(family)
  }
  const isAlive = (token: string): boolean => {
    const known = accessTokens.get(token)
    return known !== undefined && !known.family.revoked && known.round === round
  }

  const server = createServer({ key, cert }, (request, response) => {
    const answer = (status: number, body: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(typeof body === 'string' ? body : JSON.stringify(body))
    }
    if (request.url === '/api') {
      const alive = isAlive((request.headers.authorization ?? '').replace('Bearer ', ''))
      return answer(alive ? 200 : 401, { round })
    }
    let text = ''
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
    request.on('end', async () => {
      const contentType = request.headers['content-type'] ?? ''
      const fields: Record<string, string> = contentType.includes('json')
        ? JSON.parse(text)
        : Object.fromEntries(new URLSearchParams(text))
      refreshes.push({ contentType, fields })
      if (issuer.broken !== undefined) return answer(issuer.broken.status, issuer.broken.text)
      const pair = rotate(fields.refresh_token ?? '')
      if (issuer.delayMs > 0) await sleep(issuer.delayMs)
      if (pair === undefined) return answer(400, { error: 'invalid_grant' })
      if (issuer.rotates) return answer(200, pair)
      const { refresh_token: _kept, ...rest } = pair
      return answer(200, rest)
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const issuer: Issuer = {
    tokenUrl: `${base}/token`,
    apiUrl: `${base}/api`,
    authority: cert,
    refreshes,
    get reuses() {
      return reuses
    },
    get round() {
      return round
    },
    login({ isJwt = false, leftMs } = {}) {
      const family: Family = { current: newRefreshToken(), revoked: false, isJwt }
      families.set(family.current, family)
      return grant(family, leftMs)
    },
    expire() {
      round++
    },
    expireAllBut(newest) {
      round++
      for (const token of [...accessTokens.values()].slice(-newest)) token.round = round
    },
    delayMs: 0,
    broken: undefined,
    rotates: true,
    expiresInS: 3600,
    isAlive,
    issued,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
  return issuer
}

/** Returns a JWT without a valid signature, because only its issuer could check it. */
function jwt(endsMs: number): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { exp: Math.trunc(endsMs / 1000), jti: randomBytes(24).toString('hex') }
  return [part({ alg: 'RS256', typ: 'JWT' }), part(claims), randomBytes(32).toString('base64url')].join('.')
}

function newRefreshToken(): string {
  return `refresh-${randomBytes(24).toString('hex')}`
}
