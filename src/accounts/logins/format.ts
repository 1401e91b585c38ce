/** The format in which one program stores its login, and the request that renews it at its issuer. */
import { z } from 'zod'
import { isHeaderSafe } from '../api-keys.ts'
import { VaultProblem } from '../vaults/vault.ts'

/** The tokens of a login, and the properties that it states. */
export interface Tokens {
  readonly accessToken: string
  readonly refreshToken: string | undefined
  readonly expiresAtMs: number | undefined
  readonly who: string | undefined
  readonly plan?: string | undefined
  readonly scopes?: readonly string[] | undefined
  /** The account id at the provider, for requests that must name it. */
  readonly upstreamAccount?: string | undefined
}

export type LoginDocument = Readonly<Record<string, unknown>>

/** An issuer's response. */
export const issuerAnswer = z.object({
  access_token: z.string().min(1).max(65_536),
  refresh_token: z.string().min(1).max(65_536).optional(),
  id_token: z.string().min(1).max(65_536).optional(),
  expires_in: z.number().positive().max(1e10).optional(),
  scope: z.string().max(4_096).optional(),
  token_type: z.string().max(100).optional(),
})
export type IssuerAnswer = z.infer<typeof issuerAnswer>

export interface TokenRequest {
  readonly contentType: 'application/json' | 'application/x-www-form-urlencoded'
  readonly fields: Readonly<Record<string, string>>
}

export interface LoginFormat {
  /** The command that logs in again. */
  readonly loginCommand: string
  readonly tokenUrl: string
  /**
   * Returns `undefined` when the file is valid and contains no login. Throws a zod error when the content does not
   * match.
   */
  tokens(document: LoginDocument): Tokens | undefined
  /** Returns the document with the new tokens and all other fields unchanged. */
  merge(document: LoginDocument, answer: IssuerAnswer, nowMs: number): LoginDocument
  request(tokens: Tokens & { readonly refreshToken: string }, clientId: string | undefined): TokenRequest
  headers(tokens: Tokens): Readonly<Record<string, string>>
  readonly mergedHeaders: Readonly<Record<string, string>>
}

/** An empty string means absent, in every field of every program. */
export const optionalToken = z
  .string()
  .max(65_536)
  .nullish()
  .transform((value) => (value === '' || value === null ? undefined : value))

/** Throws `VaultProblem` for a file that is not a login of this format. The message names at most the field. */
export function parseLoginFile(
  format: LoginFormat,
  text: string,
  source: string,
): { readonly document: LoginDocument; readonly tokens: Tokens } | undefined {
  const document = parseDocument(text, source, format.loginCommand)
  try {
    const tokens = format.tokens(document)
    if (tokens === undefined) return undefined
    if (isHeaderSafe(tokens.accessToken)) return { document, tokens }
    throw new VaultProblem(`the token in ${source} is not one`, `log in again:  ${format.loginCommand}`)
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error
    const at = error.issues[0]?.path.join('.') || 'its content'
    throw new VaultProblem(
      `${source} is not the login file that was expected: ${at} does not fit`,
      `log in again:  ${format.loginCommand}`,
    )
  }
}

export function parseDocument(text: string, source: string, loginCommand: string): LoginDocument {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new VaultProblem(`${source} is damaged or half-written`, `log in again:  ${loginCommand}`)
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as LoginDocument
  throw new VaultProblem(`${source} is not a JSON object`, `log in again:  ${loginCommand}`)
}

/** Formats the document like the text that it replaces: on one line or indented, with or without a final line break. */
export function formatDocument(document: LoginDocument, like: string): string {
  const indent = /^\s*\{\s*\n([ \t]*)/.exec(like)?.[1]
  return JSON.stringify(document, null, indent) + (like.endsWith('\n') ? '\n' : '')
}

export function expiryFrom(answer: IssuerAnswer, nowMs: number): number | undefined {
  return answer.expires_in === undefined ? undefined : nowMs + Math.trunc(answer.expires_in * 1000)
}

export function bearer(tokens: Tokens): Readonly<Record<string, string>> {
  return { authorization: `Bearer ${tokens.accessToken}` }
}
