/**
 * An issuer of tokens over TLS that rotates refresh tokens, and takes the use of an old one for theft: then every token of that
 * login is dead. Beside it a service that wants an access token.
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
  /** Access tokens that say of themselves when they end, as OpenAI's do. */
  readonly isJwt?: boolean
  /** Until then; the past: no service knows the token any more. */
  readonly leftMs?: number
}

export interface SeenRefresh {
  readonly contentType: string
  readonly fields: Readonly<Record<string, string>>
}

export interface Issuer extends AsyncDisposable {
  readonly tokenUrl: string
  readonly apiUrl: string
  /** What to trust. */
  readonly authority: string
  readonly refreshes: readonly SeenRefresh[]
  /** How often an old token was used: a login that is lost. */
  readonly reuses: number
  /** Logs somebody in. */
  login(how?: LoginTerms): TokenPair
  /** From now on the service knows only access tokens that are made later. */
  expire(): void
  /** The same, but for the newest: as if the others had run out. */
  expireAllBut(newest: number): void
  readonly round: number
  /** How long an answer is held back after the tokens were rotated. */
  delayMs: number
  /** In place of every answer, while set. */
  broken: { readonly status: number; readonly text: string } | undefined
  /** Whether refresh tokens change; Google's do not. */
  rotates: boolean
  expiresInS: number
  readonly isAlive: (accessToken: string) => boolean
  /** Every token that was ever given out, of either kind. */
  readonly issued: readonly string[]
}

interface Family {
  current: string
  revoked: boolean
  readonly isJwt: boolean
}

/** Of an access token that no service knows. */
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

/** Signed by nobody: no one but its issuer could tell. */
function jwt(endsMs: number): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { exp: Math.trunc(endsMs / 1000), jti: randomBytes(24).toString('hex') }
  return [part({ alg: 'RS256', typ: 'JWT' }), part(claims), randomBytes(32).toString('base64url')].join('.')
}

function newRefreshToken(): string {
  return `refresh-${randomBytes(24).toString('hex')}`
}
