/** Verifies whose GitHub login it is, by a request to GitHub with the token that programs in the sandbox would use. */
import { Agent, request } from 'undici'
import { z } from 'zod'
import type { Account, Broker } from '../accounts/account.ts'
import { CraikError } from '../errors.ts'
import { codeOfFailure, tryParseJson } from '../lib/external-response.ts'

const TIMEOUT_MS = 5_000
const MAX_ANSWER_BYTES = 256 * 1024
const WANTED_SCOPES = ['repo', 'read:org', 'workflow'] as const

const plain = z
  .string()
  .max(200)
  .regex(/^[^\u0000-\u001f\u007f<>]*$/)

const userAnswer = z.looseObject({
  login: z.string().regex(/^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})$/),
  id: z.int().nonnegative(),
  name: plain.nullish().catch(null),
  email: plain.nullish().catch(null),
})

interface GitHubIdentity {
  readonly login: string
  readonly name: string
  readonly email: string
  /** The wanted scopes that the token lacks. Undefined for a token that has no scopes to report. */
  readonly missingScopes: readonly string[] | undefined
  readonly expiresAtMs: number | undefined
}

export type IdentityCheck =
  | { readonly kind: 'known'; readonly identity: GitHubIdentity }
  /** The host has no GitHub login. */
  | { readonly kind: 'none' }
  | { readonly kind: 'unknown'; readonly reason: string }

export async function fetchIdentity(
  account: Account | undefined,
  broker: Pick<Broker, 'credential'>,
  until: AbortSignal,
): Promise<IdentityCheck> {
  if (account === undefined) return { kind: 'none' }
  const agent = new Agent({ connect: { timeout: TIMEOUT_MS }, maxResponseSize: MAX_ANSWER_BYTES })
  try {
    const { headers: credential } = await broker.credential(account.id, until)
    const { statusCode, headers, body } = await request(`${account.baseUrl}/user`, {
      dispatcher: agent,
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      signal: AbortSignal.any([until, AbortSignal.timeout(TIMEOUT_MS)]),
      headers: { ...credential, accept: 'application/vnd.github+json', 'user-agent': 'craik' },
    })
    const text = await body.text()
    if (statusCode !== 200) return { kind: 'unknown', reason: `GitHub responded with status ${statusCode}` }
    const answer = userAnswer.safeParse(tryParseJson(text))
    if (!answer.success) return { kind: 'unknown', reason: 'GitHub sent an unexpected response' }
    const { login, id, name, email } = answer.data
    return {
      kind: 'known',
      identity: {
        login: login.toLowerCase(),
        name: name || login,
        email: email || `${id}+${login}@users.noreply.github.com`,
        missingScopes: missingIn(headers['x-oauth-scopes']),
        expiresAtMs: expiryOf(headers['github-authentication-token-expiration']),
      },
    }
  } catch (error) {
    until.throwIfAborted()
    return { kind: 'unknown', reason: `cannot reach GitHub (${codeOfFailure(error)})` }
  } finally {
    await agent.destroy()
  }
}

/** Throws when the login belongs to another user, and also when it cannot be verified. */
export function requireIdentity(requested: IdentityCheck, expected: string | undefined): void {
  if (expected === undefined || requested.kind === 'none') return
  if (requested.kind === 'unknown')
    throw new CraikError(
      'wrong_identity',
      `cannot verify the GitHub login ${expected}: ${requested.reason}`,
      {
        hint: 'try again when GitHub is reachable, or use no profile and unset SANDBOX_LOGIN_EXPECTED',
      },
    )
  const { login } = requested.identity
  if (login === expected) return
  throw new CraikError(
    'wrong_identity',
    `expected the GitHub login ${expected}, but the token of this machine belongs to ${login}`,
    { hint: `log in as ${expected}:  gh auth switch --user ${expected}` },
  )
}

/** A fine-grained token has no scopes, and GitHub reports none. */
function missingIn(header: string | string[] | undefined): readonly string[] | undefined {
  if (typeof header !== 'string' || header.trim() === '') return undefined
  const granted = new Set(header.split(',').map((scope) => scope.trim()))
  // `admin:org` and `write:org` include `read:org`.
  if (granted.has('admin:org') || granted.has('write:org')) granted.add('read:org')
  return WANTED_SCOPES.filter((scope) => !granted.has(scope))
}

function expiryOf(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  // GitHub's format is `2026-11-16 09:00:00 UTC`.
  const ms = Date.parse(header.replace(/^(\S+) (\S+) UTC$/, '$1T$2Z'))
  return Number.isNaN(ms) ? undefined : ms
}
